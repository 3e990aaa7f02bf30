"""The portfolio: the cheapest routes of all members, in time, whatever happens to a member."""

from __future__ import annotations

import re
import signal
import threading
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from mcvrp.model.decoding import Nucleus, decode
from mcvrp.model.problem import City, Instance, Solution, cost, infeasibility
from mcvrp.storage.models.models import load_model
from mcvrp.storage.store.store import Store
from mcvrp.tasks.solve.member import Found, ModelMember, SearchMember
from mcvrp.tasks.solve.portfolio import Portfolio
from mcvrp.tasks.solve.spec import SolveSpec
from mcvrp.tasks.solvers.local_search import random_solution
from mcvrp.tasks.solvers.solver import NO_LIMITS, Limits, SolverFailed
from mcvrp.tasks.support.machine import local_cores
from mcvrp.tasks.support.progress import ProgressReport, listening
from tests.support.scripted import Scripted
from tests.support.solving import CITY, one_way_city

RNG = np.random.default_rng(0)
DAY = Instance(CITY.city_id, np.arange(1, 21), RNG.integers(1, 9, 20), 20)  # type: ignore[arg-type]


def portfolio(seconds: float = 30.0, limits: Limits = NO_LIMITS, **options: Any) -> Portfolio:
    return Portfolio(CITY, DAY, limits, seconds, time.monotonic(), **options)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 99)), min_size=1, max_size=9))
def test_the_cheapest_of_all_answers_wins(answers: list[tuple[int, int]]) -> None:
    """Answers of any member, in any order, and those of the request itself."""
    search = portfolio()
    drawn = [(f"member {k}", random_solution(DAY, seed)) for k, seed in answers]
    for label, solution in drawn:
        search.take(Found(label, solution))
    best = min(cost(CITY, solution) for _, solution in drawn)
    assert search.solution is not None
    assert cost(CITY, search.solution) == best
    for label, finding in search.findings.items():
        assert finding.cost == min(cost(CITY, each) for by, each in drawn if by == label)


@pytest.mark.parametrize(
    ("limit", "start_up", "span"), [(10, 0.6, 9.4), (10, 4, 6), (10, 7, 5), (2, 1.5, 1), (0.1, 9, 0.05)]
)
def test_the_start_counts_in_the_time_limit(limit: float, start_up: float, span: float) -> None:
    """Half of the limit is for the search, however slow the machine is."""
    search = Portfolio(CITY, DAY, NO_LIMITS, limit, began=5.0, _start=5.0 + start_up)
    assert search.span == pytest.approx(span)


def test_infeasible_answers_are_left_out() -> None:
    search = portfolio(limits=Limits(fleet=5))
    for wrong in (
        Solution(((1, 2),)),
        Solution((tuple(range(1, 21)),)),
        Solution.of([k] for k in range(1, 21)),
    ):
        search.take(Found("member", wrong))
    assert (search.solution, search.findings) == (None, {})


def test_members_that_fail_or_die_do_not_end_the_others() -> None:
    good = random_solution(DAY, 1)
    members = [
        Scripted("failing", ((0.0, SolverFailed("gave up")),)),
        Scripted("killed", ((0.0, signal.SIGKILL),)),
        Scripted("good", ((0.0, good),)),
    ]
    search = portfolio(patient=True)  # until all have ended
    assert cost(CITY, search.search(members, "a day")) == cost(CITY, good)
    assert search.seconds < 25
    assert search.failures.keys() == {"failing", "killed"}
    assert search.failures["failing"] == "gave up"
    assert search.failures["killed"].startswith("its process was killed")
    assert search.silent == []


def test_without_an_answer_the_reasons_are_named() -> None:
    with pytest.raises(SolverFailed, match=r"^one: gave up$"):
        portfolio().search([Scripted("one", ((0.0, SolverFailed("gave up")),))], "a day")


def test_the_search_ends_when_nothing_improves_or_the_time_is_up() -> None:
    """0.04 s per customer after the last improvement; a patient one, or one without routes, at the limit."""
    first, later = sorted((random_solution(DAY, k) for k in (1, 2)), key=lambda each: -cost(CITY, each))
    searching = Scripted("one", ((0.0, first), (0.3, later), (60.0, first)))
    search, reports = portfolio(), list[ProgressReport]()
    with listening(reports.append):
        solution = search.search([searching], "a day")
    assert cost(CITY, solution) == cost(CITY, later)
    assert search.seconds < 25
    assert reports[-1].done == reports[-1].total <= search.seconds + 1
    patient = portfolio(2.5, patient=True)
    patient.search([Scripted("one", ((0.0, first), (60.0, first)))], "a day")
    assert patient.seconds >= 2.4
    late = portfolio(1.0)
    late.search([Scripted("one", ((1.5, first), (60.0, first)))], "a day")
    assert late.seconds >= 1.5
    with pytest.raises(SolverFailed, match=r"no routes within --fleet 9 were found in 1 s: increase"):
        portfolio(1.0, Limits(fleet=9)).search([Scripted("one", ((0.0, SolverFailed("gave up")),))], "a day")


def test_the_search_waits_until_every_member_was_heard() -> None:
    """A member that takes long to start is heard, also if it has found nothing, or fails."""
    first = random_solution(DAY, 1)
    members = [
        Scripted("fast", ((0.0, first), (60.0, first))),
        Scripted("late", ((2.0, first), (60.0, first))),
        Scripted("without", ((2.5, None), (60.0, first))),
        Scripted("failing", ((3.0, SolverFailed("its weights are corrupt")),)),
        Scripted("ended", ()),
        Scripted("ended", ()),
    ]
    search = portfolio(600.0)
    search.search(members, "a day")
    assert search.seconds < 50
    assert search.findings.keys() == {"fast", "late"}
    assert search.failures == {"failing": "its weights are corrupt"}
    assert search.silent == ["without", "ended"]


def test_a_member_that_is_not_heard_in_time_has_failed() -> None:
    """Several of one name have if none of them was heard."""
    good = random_solution(DAY, 1)
    members = [Scripted(name, ((wait, good), (60.0, good))) for name, wait in (("HGS", 0.0), ("HGS", 60.0))]
    search = portfolio(2.5)
    search.search([*members, Scripted("model", ((60.0, good),))], "a day")
    (reason,) = search.failures.values()
    assert search.failures == {"model": reason}
    assert re.fullmatch(r"still starting after .* s, at the time limit of 2.5 s: increase it", reason)
    assert search.silent == []


def test_ctrl_c_leaves_the_best_so_far() -> None:
    """A member that was not heard has found nothing; before there are any routes, it is as elsewhere."""
    good = random_solution(DAY, 1)
    search = portfolio(patient=True)

    def press() -> None:
        while search.solution is None:
            time.sleep(0.05)
        signal.raise_signal(signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()
    search.search([Scripted("one", ((0.0, good), (60.0, good))), Scripted("two", ((60.0, good),))], "a day")
    assert search.interrupted
    assert (search.failures, search.silent) == ({}, ["two"])
    assert search.solution is not None
    threading.Timer(1.0, signal.raise_signal, (signal.SIGINT,)).start()
    with pytest.raises(KeyboardInterrupt):
        portfolio().search([Scripted("one", ((60.0, good),))], "a day")


@pytest.mark.parametrize("city", [CITY, one_way_city()])
@pytest.mark.parametrize("solver", ["hgs", "pyvrp"])
def test_a_search_in_slices_improves(city: City, solver: str) -> None:
    """Each answer is cheaper than the one before and than the starts, in the numbers of the whole city."""
    ids = np.arange(3, 33)
    day = Instance(city.city_id, ids, np.full(30, 3), 20)  # type: ignore[arg-type]
    start = random_solution(day, 3)
    member = SearchMember.of(solver, city, day, NO_LIMITS, 1)
    answers = list(member.found(time.monotonic() + 1.0))
    prices = [cost(city, each.solution) for each in answers if each.solution]
    assert prices == sorted(prices, reverse=True)
    assert len(prices) == len(answers)
    assert all(infeasibility(day, each.solution) is None for each in answers if each.solution)
    started = SearchMember.of(solver, city, day, NO_LIMITS, 1, starts=(answers[-1].solution, start))
    first, *more = started.found(time.monotonic() + 0.2)
    for found in (first, *more):
        assert found.solution is None or cost(city, found.solution) < prices[-1]


def model_member(store: Store, **spec: Any) -> ModelMember:
    return ModelMember("model", store, "small", 1, CITY, DAY, SolveSpec(**spec), 1000)


def test_a_model_sends_its_samples_after_local_search(store: Store) -> None:
    """With enough time, the samples are those of one batch; local search improves them a lot."""
    answers = list(model_member(store, samples=20, seed=3, p=0.7).found(time.monotonic() + 120))
    network, _ = load_model(store, "small")
    (together,) = decode(network, CITY, [DAY], strategy=Nucleus(0.7), samples=20, rotations=1000, seed=3)
    last = answers[-1]
    assert last.samples == 20
    assert last.sampled == pytest.approx(together.costs.min())
    assert cost(CITY, last.solution) < 0.8 * together.costs.min()
    again = list(model_member(store, samples=20, seed=3, p=0.7, threads=1).found(time.monotonic() + 120))
    assert again[-1].solution == last.solution


def test_the_time_ends_decoding(store: Store) -> None:
    last = list(model_member(store, samples=100_000).found(time.monotonic() + 2.0))[-1]
    assert 4 <= last.samples < 100_000


def test_all_cores_search_unless_told_otherwise() -> None:
    assert (SolveSpec().cores, SolveSpec(threads=3).cores) == (local_cores(), 3)
