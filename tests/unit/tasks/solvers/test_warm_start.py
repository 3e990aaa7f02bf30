"""Searches that start from samples: never worse than the best of them, and no longer than the total."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from mcvrp.model.canonical_form import canonical
from mcvrp.model.errors import McvrpError
from mcvrp.model.instances import InstanceStream, Rules
from mcvrp.model.problem import City, Instance, Solution, cost, infeasibility
from mcvrp.tasks.solvers.hgs import HGS
from mcvrp.tasks.solvers.local_search import random_solution
from mcvrp.tasks.solvers.pyvrp import PyVRP
from mcvrp.tasks.solvers.registry import SOLVERS
from mcvrp.tasks.solvers.solver import Answer, SolverFailed
from mcvrp.tasks.solvers.warm_start import Start, WarmStarted
from tests.support.answers import require_answer
from tests.support.networks import small_solver
from tests.support.optimum import SMALL, best_cost

CITY = City.uniform(30, seed=1)
ONE_WAY = City(CITY.xy, np.random.default_rng(0).integers(1, 1000, (31, 31)).astype(float))
STREAM = InstanceStream(CITY, 1, "test", Rules(capacity=(12, 25)))


def start(instance: Instance, seed: int = 0, seconds: float = 0.0) -> Start:
    return Start(tuple(random_solution(instance, seed + k).routes for k in range(3)), seconds)


def least(start: Start) -> float:
    return min(cost(CITY, Solution(routes)) for routes in start.routes)


def finished(
    finisher: str, total: float, starts: Sequence[Start], instances: Sequence[Instance], city: City = CITY
) -> list[Answer]:
    warm = WarmStarted(SOLVERS[finisher], total, tuple(starts))
    return list(warm.solve(city, instances, samples=3, seed=1))


class Recorder:
    """Search that records its arguments only."""

    def __init__(self) -> None:
        self.limits: list[float | None] = []
        self.starts: list[tuple[Solution, ...]] = []

    def search(
        self, solver: HGS | PyVRP, city: City, i: Instance, seed: int, starts: Sequence[Solution]
    ) -> Solution:
        self.limits.append(solver.time_limit)
        self.starts.append(tuple(starts))
        raise SolverFailed("nothing found")


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder, clock = Recorder(), itertools.count()
    for search in (HGS, PyVRP):
        monkeypatch.setattr(search, "search", lambda *arguments: recorder.search(*arguments))
    monkeypatch.setattr("time.thread_time", lambda: next(clock) / 8)  # conversions take 1/8 s
    return recorder


@pytest.mark.parametrize("finisher", ["hgs", "pyvrp"])
def test_the_search_has_what_decoding_and_conversion_left(finisher: str, recorder: Recorder) -> None:
    """Without time left, or if the search fails, the best sample is the answer."""
    instances = [STREAM(9, i) for i in range(4)]
    starts = [start(i, seconds=s) for i, s in zip(instances, (0.25, 2.0, 1.0, 0.9), strict=True)]
    answers = finished(finisher, 1.0, starts, instances)
    assert recorder.limits == [0.625]
    assert [answer.costs[0] for answer in answers] == pytest.approx([least(each) for each in starts])
    assert all(answer.seconds >= each.seconds for answer, each in zip(answers, starts, strict=True))


@pytest.mark.parametrize(("finisher", "most"), [("hgs", 8), ("pyvrp", 1)])
def test_a_search_starts_from_the_best_samples(finisher: str, most: int, recorder: Recorder) -> None:
    """The cheapest, each once however often and whichever way round it was sampled, cheapest first."""
    instance = STREAM(12, 0)
    routes = [random_solution(instance, seed).routes for seed in range(20)]
    turned = [tuple(route[::-1] for route in solution[::-1]) for solution in routes]
    finished(finisher, 1.0, [Start((*turned, *routes), 0.0)], [instance])
    distinct = {canonical(CITY, Solution(solution)) for solution in routes}
    assert recorder.starts == [tuple(sorted(distinct, key=lambda solution: cost(CITY, solution))[:most])]


@settings(max_examples=15, deadline=None)
@given(n=st.integers(1, 25), seed=st.integers(0, 1000), finisher=st.sampled_from(["hgs", "pyvrp"]))
def test_answers_are_no_worse_than_the_best_sample(n: int, seed: int, finisher: str) -> None:
    """Even if there is hardly time to search."""
    instance = STREAM(n, seed)
    samples = start(instance, seed)
    (answer,) = finished(finisher, 0.002, [samples], [instance])
    require_answer(CITY, instance, answer)
    assert answer.costs[0] <= least(samples) + 1e-9


@pytest.mark.parametrize(
    ("finisher", "city"), [("hgs", CITY), ("pyvrp", CITY), ("hgs", ONE_WAY), ("pyvrp", ONE_WAY)]
)
def test_a_search_from_samples_ends_at_the_optimum(finisher: str, city: City) -> None:
    """On seven customers, from an untrained network's samples, in a total that leaves it time."""
    instances = [InstanceStream(city, 1, "test", SMALL)(7, i) for i in range(2)]
    starts = list(small_solver(city).starts(city, instances, samples=4, seed=1))
    answers = finished(finisher, 0.2 + max(each.seconds for each in starts), starts, instances, city)
    for instance, answer in zip(instances, answers, strict=True):
        assert answer.costs[0] == pytest.approx(best_cost(city, instance), rel=1e-6)


def test_a_start_with_too_many_routes_is_left_out() -> None:
    """A sample may use more vehicles than the fleet has; HGS would refuse it."""
    instance = STREAM(20, 0)
    alone = Solution(tuple((customer,) for customer in instance.ids.tolist()))
    solution = HGS(iterations=5).search(CITY, instance, 1, [alone])
    assert infeasibility(instance, solution) is None
    assert solution == HGS(iterations=5).search(CITY, instance, 1)


def test_bad_starts_are_refused_in_one_sentence() -> None:
    instance, other = STREAM(9, 0), STREAM(9, 1)
    for total, asked, message in (
        (1.0, instance, "no sample of its instance"),
        (0.0, other, "positive number of seconds"),
    ):
        with pytest.raises(McvrpError, match=message):
            finished("hgs", total, [start(other)], [asked], CITY)
