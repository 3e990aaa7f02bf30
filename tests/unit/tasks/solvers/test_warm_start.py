"""Searches that start from samples: never worse than the best of them, and no longer than the total."""

from __future__ import annotations

import subprocess
import sys
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
from mcvrp.tasks.solvers.solver import Solver, SolverFailed
from mcvrp.tasks.solvers.warm_start import Routes, Start, WarmStarted

CITY = City.uniform(30, seed=1)
HGS_ENTRY, PYVRP_ENTRY = SOLVERS["hgs"], SOLVERS["pyvrp"]
STREAM = InstanceStream(CITY, 1, "test", Rules(capacity=(12, 25)))


def random_routes(instance: Instance, seed: int) -> Routes:
    return random_solution(instance, seed).routes


def start(instance: Instance, seed: int, samples: int = 3, seconds: float = 0.0) -> Start:
    return Start(tuple(random_routes(instance, seed + k) for k in range(samples)), seconds)


def best_cost(start: Start) -> float:
    return min(cost(CITY, Solution(routes)) for routes in start.routes)


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
    found = Recorder()
    for search in (HGS, PyVRP):
        monkeypatch.setattr(search, "search", lambda *arguments: found.search(*arguments))
    monkeypatch.setattr("time.thread_time", lambda: 0.0)  # conversions are free
    return found


@pytest.mark.parametrize("finisher", ["hgs", "pyvrp"])
def test_the_search_has_what_decoding_left(finisher: str, recorder: Recorder) -> None:
    """Total less decoding, per instance; without time left, there is no search."""
    instances = [STREAM(9, i) for i in range(3)]
    starts = tuple(start(i, 0, seconds=s) for i, s in zip(instances, (0.25, 2.0, 1.0), strict=True))
    answers = list(WarmStarted(SOLVERS[finisher], 1.0, starts).solve(CITY, instances, samples=3, seed=1))
    assert recorder.limits == [0.75]
    for answer, start_ in zip(answers, starts, strict=True):
        assert answer.costs.tolist() == pytest.approx([best_cost(start_)])  # the search has failed
        assert answer.seconds >= start_.seconds


def test_what_preparing_the_start_takes_is_taken_off(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processor time between the samples and the search counts as everything else."""
    clock = iter((0.0, 0.125))
    monkeypatch.setattr("time.thread_time", lambda: next(clock))
    instance = STREAM(9, 0)
    list(
        WarmStarted(HGS_ENTRY, 1.0, (start(instance, 0, seconds=0.5),)).solve(
            CITY, [instance], samples=3, seed=1
        )
    )
    assert recorder.limits == [0.375]


@pytest.mark.parametrize(("finisher", "most"), [("hgs", 8), ("pyvrp", 1)])
def test_a_search_starts_from_the_best_samples(finisher: str, most: int, recorder: Recorder) -> None:
    """The cheapest, each once however often and whichever way round it was sampled, cheapest first."""
    instance = STREAM(12, 0)
    routes = [random_routes(instance, seed) for seed in range(20)]
    turned = [tuple(route[::-1] for route in solution[::-1]) for solution in routes]
    warm = WarmStarted(SOLVERS[finisher], 1.0, (Start((*turned, *routes), 0.0),))
    list(warm.solve(CITY, [instance], samples=40, seed=1))
    distinct = {canonical(CITY, Solution(solution)) for solution in routes}
    assert recorder.starts == [tuple(sorted(distinct, key=lambda solution: cost(CITY, solution))[:most])]


@settings(max_examples=15, deadline=None)
@given(n=st.integers(1, 25), seed=st.integers(0, 1000), finisher=st.sampled_from(["hgs", "pyvrp"]))
def test_answers_are_feasible_and_no_worse_than_the_best_sample(n: int, seed: int, finisher: str) -> None:
    """Also when there is hardly time to search."""
    instance = STREAM(n, seed)
    samples = start(instance, seed)
    warm: Solver = WarmStarted(SOLVERS[finisher], 0.002, (samples,))
    (answer,) = warm.solve(CITY, [instance], samples=3, seed=seed)
    assert answer.solution is not None
    assert infeasibility(instance, answer.solution) is None
    assert canonical(CITY, answer.solution) == answer.solution
    assert answer.costs.tolist() == [cost(CITY, answer.solution)]
    assert answer.costs[0] <= best_cost(samples) + 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_hgs_with_one_iteration_keeps_its_best_start(seed: int) -> None:
    """Starts join the population as they are: the best of them is never lost."""
    instance = STREAM(20, seed)
    good = HGS(iterations=50).search(CITY, instance, 1)
    found = HGS(iterations=1, population=1).search(
        CITY, instance, 1, [Solution(random_routes(instance, 1)), good]
    )
    assert cost(CITY, found) <= cost(CITY, good) + 1e-9


@pytest.mark.timeout(60)
@pytest.mark.parametrize("solver", [HGS(time_limit=0.01), HGS(iterations=5), PyVRP(time_limit=0.01)])
def test_one_customer_is_a_route_of_its_own(solver: HGS | PyVRP) -> None:
    """HGS-CVRP itself never ends on a single customer."""
    instance = STREAM(1, 0)
    assert solver.search(CITY, instance, 1).routes == ((int(instance.ids[0]),),)


def test_a_start_with_too_many_routes_is_left_out() -> None:
    """A sample may use more vehicles than the fleet has; HGS would refuse it."""
    instance = STREAM(20, 0)
    alone = Solution(tuple((customer,) for customer in instance.ids.tolist()))
    found = HGS(iterations=5).search(CITY, instance, 1, [alone])
    assert infeasibility(instance, found) is None
    assert found == HGS(iterations=5).search(CITY, instance, 1)


def test_bad_starts_are_refused_in_one_sentence() -> None:
    """No samples, samples of another instance, one start too few, no time, one-way costs for HGS."""
    instance, other = STREAM(9, 0), STREAM(9, 1)
    with pytest.raises(McvrpError, match="no sample of its instance"):
        list(WarmStarted(HGS_ENTRY, 1.0, (start(other, 0),)).solve(CITY, [instance], samples=1, seed=1))
    with pytest.raises(McvrpError, match="1 warm starts for 2 instances"):
        list(
            WarmStarted(HGS_ENTRY, 1.0, (start(other, 0),)).solve(CITY, [instance, other], samples=1, seed=1)
        )
    with pytest.raises(McvrpError, match="positive number of seconds"):
        WarmStarted(PYVRP_ENTRY, 0.0, ())
    one_way = City(CITY.xy, np.random.default_rng(0).integers(1, 9, (31, 31)).astype(float))
    there = InstanceStream(one_way, 1, "test")(20, 0)
    with pytest.raises(McvrpError, match="symmetric costs only"):
        list(WarmStarted(HGS_ENTRY, 1.0, (start(there, 0),)).solve(one_way, [there], samples=1, seed=1))


def test_names_in_tables_say_what_was_combined() -> None:
    """Model, samples, total and search are in the label and the configuration."""
    warm = WarmStarted(HGS_ENTRY, 2.0, (start(STREAM(9, 0), 0),), version="m 1", device="GPU + 1 CPU core")
    assert warm.label == "FM-MCVRP (NS) + HGS (equal time)"
    assert WarmStarted(PYVRP_ENTRY, 2.0, ()).label == "FM-MCVRP (NS) + PyVRP (equal time)"
    for words in ("model m 1", "3 samples", "of 2 s", "hybgensea"):
        assert words in warm.configuration


def test_finishing_needs_no_torch() -> None:
    """A worker that searches starts without it."""
    code = "import sys; import mcvrp.tasks.solvers.warm_start; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
