"""Every solver, for real: feasible, canonical, the same for the same seed, near what is proved best."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mcvrp.model.canonical_form import canonical
from mcvrp.model.errors import McvrpError
from mcvrp.model.instances import InstanceStream, Rules
from mcvrp.model.problem import City, Instance, Solution, cost, infeasibility
from mcvrp.tasks.solvers import elkai_lkh, lkh3
from mcvrp.tasks.solvers.hgs import HGS
from mcvrp.tasks.solvers.lkh3 import LKH3, find_program
from mcvrp.tasks.solvers.pyvrp import PyVRP
from mcvrp.tasks.solvers.solver import Solver, SolverMissing
from tests.support.optimum import SMALL, best_cost

CITY = City.uniform(60, seed=3)


def hgs() -> Solver:
    return HGS(iterations=50)


def pyvrp() -> Solver:
    return PyVRP(iterations=200)


def lkh() -> Solver:
    if find_program() is None and os.environ.get("CI") != "true":
        pytest.skip("neither an LKH program nor elkai is installed")
    return LKH3()


def small_hgs() -> Solver:
    return HGS(iterations=50, population=5)


SOLVERS = [hgs, small_hgs, pyvrp, pytest.param(lkh, marks=pytest.mark.lkh)]


def instances(n: int, count: int, city: City = CITY, rules: Rules = Rules()) -> list[Instance]:  # noqa: B008
    return [InstanceStream(city, 1, "test", rules)(n, i) for i in range(count)]


@pytest.mark.parametrize("make", SOLVERS)
def test_answers_are_feasible_canonical_and_priced_by_us(make: Callable[[], Solver]) -> None:
    """Every answer serves its instance, in canonical form, and costs what the city says."""
    asked = instances(25, 3)
    answers = list(make().solve(CITY, asked, samples=2, seed=1))
    assert len(answers) == 3
    for instance, answer in zip(asked, answers, strict=True):
        assert answer.solution is not None
        assert infeasibility(instance, answer.solution) is None
        assert canonical(CITY, answer.solution) == answer.solution
        assert answer.costs.shape == (2,)
        assert answer.costs.min() == pytest.approx(cost(CITY, answer.solution), rel=1e-12)
        assert answer.seconds > 0
        assert answer.failure is None


@pytest.mark.parametrize("make", [hgs, pyvrp])
@pytest.mark.parametrize("i", range(3))
def test_small_instances_are_solved_to_the_optimum(make: Callable[[], Solver], i: int) -> None:
    """On seven customers the solver finds what exhaustive search finds: scaling costs no precision."""
    instance = instances(7, 3, rules=SMALL)[i]
    (answer,) = make().solve(CITY, [instance], samples=1, seed=1)
    assert answer.costs[0] == pytest.approx(best_cost(CITY, instance), rel=1e-6)


@pytest.mark.lkh
def test_lkh_comes_near_the_optimum() -> None:
    """LKH-3 holds to the fewest vehicles, so it is never below the optimum and seldom far above."""
    asked = instances(7, 5, rules=SMALL)
    gaps = [
        answer.costs[0] / best_cost(CITY, instance) - 1
        for instance, answer in zip(asked, lkh().solve(CITY, asked, samples=1, seed=1), strict=True)
    ]
    assert min(gaps) > -1e-9
    assert np.median(gaps) < 0.05


@pytest.mark.parametrize("make", SOLVERS)
def test_the_same_seed_gives_the_same_answer(make: Callable[[], Solver]) -> None:
    """Samples are runs with consecutive seeds: one sample is the first of three."""
    asked = instances(40, 1)
    solver = make()
    (three,) = solver.solve(CITY, asked, samples=3, seed=5)
    (one,) = solver.solve(CITY, asked, samples=1, seed=5)
    (last,) = solver.solve(CITY, asked, samples=1, seed=7)
    assert three.costs[0] == one.costs[0]
    assert three.costs[2] == last.costs[0]


@pytest.mark.parametrize("make", SOLVERS)
def test_the_unit_of_the_city_does_not_matter(make: Callable[[], Solver]) -> None:
    """The same city in metres, somewhere on the map, has the same routes at 5,000 times the cost."""
    metres = City(5000 * CITY.xy + 1e6, None, (1e6, 1e6), 5000.0, "m")
    (asked,) = instances(30, 1)
    there = Instance(metres.city_id, asked.ids, asked.demands, asked.capacity)
    (answer,) = make().solve(CITY, [asked], samples=1, seed=1)
    (in_metres,) = make().solve(metres, [there], samples=1, seed=1)
    assert in_metres.costs[0] == pytest.approx(5000 * answer.costs[0], rel=1e-6)


@pytest.mark.parametrize("make", [hgs, pyvrp])
def test_a_matrix_decides_not_the_coordinates(make: Callable[[], Solver]) -> None:
    """With a symmetric matrix unrelated to the map, the optimum is the matrix's."""
    matrix = np.random.default_rng(0).integers(1, 1000, (61, 61)).astype(float)
    city = City(CITY.xy, np.triu(matrix, 1) + np.triu(matrix, 1).T)
    (instance,) = instances(7, 1, city, SMALL)
    (answer,) = make().solve(city, [instance], samples=3, seed=1)
    assert answer.costs.min() == pytest.approx(best_cost(city, instance), rel=1e-9)


def test_one_way_costs_go_to_pyvrp() -> None:
    """PyVRP solves asymmetric costs to the optimum and keeps directions; the others name it."""
    matrix = np.random.default_rng(1).integers(1, 1000, (61, 61)).astype(float)
    city = City(CITY.xy, matrix)
    (instance,) = instances(7, 1, city, SMALL)
    (answer,) = pyvrp().solve(city, [instance], samples=3, seed=1)
    assert answer.costs.min() == pytest.approx(best_cost(city, instance), rel=1e-9)
    with pytest.raises(McvrpError, match=r"HGS takes symmetric costs only.*use solver pyvrp"):
        list(hgs().solve(city, [instance], samples=1, seed=1))


@pytest.mark.lkh
def test_lkh_refuses_a_matrix() -> None:
    """LKH-3 supports straight lines only."""
    city = City(CITY.xy, CITY.costs(np.arange(61)))
    with pytest.raises(McvrpError, match="the city has a matrix: use solver pyvrp"):
        list(lkh().solve(city, instances(20, 1, city), samples=1, seed=1))


@pytest.mark.parametrize("solver", [HGS(time_limit=0.05), PyVRP(time_limit=0.05), HGS(0.05, None, 10_000)])
def test_every_budget_gives_an_answer(solver: Solver) -> None:
    """A time limit, and the paper's fleet of 10,000."""
    (answer,) = solver.solve(CITY, instances(20, 1), samples=1, seed=1)
    assert answer.solution is not None


def test_too_small_a_fleet_is_a_failure_with_a_reason() -> None:
    """An instance that one vehicle cannot serve has no answer, infinite cost, and says why."""
    (answer,) = HGS(iterations=20, fleet=1).solve(CITY, instances(20, 1), samples=2, seed=1)
    assert answer.solution is None
    assert answer.costs.tolist() == [math.inf, math.inf]
    assert answer.failure


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: HGS(), "one of the two"),
        (lambda: HGS(1.0, 5), "one of the two"),
        (lambda: PyVRP(-1.0), "positive"),
        (lambda: PyVRP(None, 0), "at least one iteration"),
        (lambda: HGS(1.0, None, 0), "at least one vehicle"),
    ],
)
def test_absurd_budgets_are_refused(make: Callable[[], Solver], message: str) -> None:
    """A solver is made with a budget that means something, or not at all."""
    with pytest.raises(McvrpError, match=message):
        make()


def test_without_lkh_the_way_to_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a program nor elkai: the message says how to get either, and under which terms."""
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(lkh3.importlib.util, "find_spec", lambda name: None)  # type: ignore[attr-defined]
    with pytest.raises(SolverMissing, match=r"pip install '\.\[lkh\]' .*non-commercial"):
        LKH3()


@pytest.mark.lkh
def test_a_real_program_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An LKH program on the path is used rather than elkai, and gets LKH's own files."""
    lkh()
    if find_program() != "elkai":
        pytest.skip("a real LKH program is on the path already")
    (expected,) = LKH3().solve(CITY, instances(20, 1), samples=1, seed=1)
    program = tmp_path / "LKH"
    script = elkai_lkh.__file__
    program.write_text(f'#!/bin/sh\ncp "$1" {tmp_path}/seen.par\nexec {sys.executable} -I {script} "$1"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    solver = LKH3()
    assert solver.version == str(program)
    (answer,) = solver.solve(CITY, instances(20, 1), samples=1, seed=1)
    assert answer.costs[0] == expected.costs[0]
    seen = elkai_lkh.parameters((tmp_path / "seen.par").read_text())
    assert (seen["MAX_TRIALS"], seen["RUNS"], seen["SEED"]) == ("20", "1", "1")


@pytest.mark.lkh
def test_a_program_that_fails_is_a_failed_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last words of LKH when it gives up become the reason."""
    lkh()
    program = tmp_path / "LKH"
    program.write_text("#!/bin/sh\necho 'out of luck'\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (answer,) = LKH3().solve(CITY, instances(20, 1), samples=1, seed=1)
    assert answer.solution is None
    assert answer.failure == "LKH-3 gave up: out of luck"


def test_the_exhaustive_reference_is_right() -> None:
    """Two customers on opposite sides: one route or two cost the same or less, as capacity allows."""
    city = City(np.array([[0.5, 0.5], [0.5, 1.0], [1.0, 0.5]]))
    together = Instance(city.city_id, np.array([1, 2]), np.array([1, 1]), 2)
    apart = Instance(city.city_id, np.array([1, 2]), np.array([2, 2]), 2)
    assert best_cost(city, together) == pytest.approx(1 + math.sqrt(0.5))
    assert best_cost(city, apart) == pytest.approx(2.0)
    assert cost(city, Solution.of([[1], [2]])) == pytest.approx(2.0)
