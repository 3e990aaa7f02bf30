"""Single solvers, for real: optimality, budgets, programs; `test_contract` is about each of them."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.model.instances import InstanceStream, Rules
from mcvrp.model.problem import City, Instance, Solution, cost
from mcvrp.tasks.solvers import elkai_lkh, lkh3
from mcvrp.tasks.solvers.hgs import HGS
from mcvrp.tasks.solvers.lkh3 import LKH3, find_program
from mcvrp.tasks.solvers.pyvrp import PyVRP
from mcvrp.tasks.solvers.solver import Solver, SolverMissing
from tests.support.optimum import SMALL, best_cost

CITY = City.uniform(60, seed=3)


def lkh() -> Solver:
    if find_program() is None and os.environ.get("CI") != "true":
        pytest.skip("neither an LKH program nor elkai is installed")
    return LKH3()


def instances(n: int, count: int, city: City = CITY, rules: Rules = Rules()) -> list[Instance]:  # noqa: B008
    return [InstanceStream(city, 1, "test", rules)(n, i) for i in range(count)]


@pytest.mark.lkh
def test_lkh_comes_near_the_optimum() -> None:
    """LKH-3 holds to the fewest vehicles, so it is never below the optimum and seldom far above."""
    days = instances(7, 5, rules=SMALL)
    gaps = [
        answer.costs[0] / best_cost(CITY, instance) - 1
        for instance, answer in zip(days, lkh().solve(CITY, days, samples=1, seed=1), strict=True)
    ]
    assert min(gaps) > -1e-9
    assert np.median(gaps) < 0.05


def test_too_small_a_fleet_is_a_failure_with_a_reason() -> None:
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
    with pytest.raises(McvrpError, match=message):
        make()


def test_without_lkh_the_way_to_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(lkh3.importlib.util, "find_spec", lambda name: None)  # type: ignore[attr-defined]
    with pytest.raises(SolverMissing, match=r"pip install '\.\[lkh\]' .*non-commercial"):
        LKH3()


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Function that puts an LKH program with these commands on the path."""

    def write(commands: str) -> Path:
        path = tmp_path / "LKH"
        path.write_text(f"#!/bin/sh\n{commands}\n")
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        return path

    return write


@pytest.mark.lkh
def test_a_real_program_comes_first(tmp_path: Path, program: Callable[[str], Path]) -> None:
    lkh()
    if find_program() != "elkai":
        pytest.skip("a real LKH program is on the path already")
    (expected,) = LKH3().solve(CITY, instances(20, 1), samples=1, seed=1)
    path = program(f'cp "$1" {tmp_path}/seen.par\nexec {sys.executable} -I {elkai_lkh.__file__} "$1"')
    solver = LKH3()
    assert solver.version == str(path)
    (answer,) = solver.solve(CITY, instances(20, 1), samples=1, seed=1)
    assert answer.costs[0] == expected.costs[0]
    seen = elkai_lkh.parameters((tmp_path / "seen.par").read_text())
    assert (seen["MAX_TRIALS"], seen["RUNS"], seen["SEED"]) == ("20", "1", "1")


@pytest.mark.lkh
def test_a_program_that_fails_is_a_failed_sample(program: Callable[[str], Path]) -> None:
    """Its last line becomes the reason."""
    lkh()
    program("echo 'out of luck'\nexit 1")
    (answer,) = LKH3().solve(CITY, instances(20, 1), samples=1, seed=1)
    assert (answer.solution, answer.failure) == (None, "LKH-3 gave up: out of luck")


def test_the_exhaustive_reference_is_right() -> None:
    """Two customers on opposite sides: one route or two cost the same or less, as capacity allows."""
    city = City(np.array([[0.5, 0.5], [0.5, 1.0], [1.0, 0.5]]))
    together = Instance(city.city_id, np.array([1, 2]), np.array([1, 1]), 2)
    apart = Instance(city.city_id, np.array([1, 2]), np.array([2, 2]), 2)
    assert best_cost(city, together) == pytest.approx(1 + math.sqrt(0.5))
    assert best_cost(city, apart) == pytest.approx(2.0)
    assert cost(city, Solution.of([[1], [2]])) == pytest.approx(2.0)
