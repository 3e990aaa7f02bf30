"""Single solvers, for real: optimality, budgets, programs; `test_contract` is about each of them."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.model.instances import InstanceStream, Rules
from mcvrp.model.problem import City, Instance
from mcvrp.tasks.solvers import lkh3
from mcvrp.tasks.solvers.hgs import HGS
from mcvrp.tasks.solvers.lkh3 import LKH3, is_installed
from mcvrp.tasks.solvers.pyvrp import PyVRP
from mcvrp.tasks.solvers.solver import Solver, SolverMissing
from tests.support.optimum import SMALL, best_cost

CITY = City.uniform(60, seed=3)


def lkh() -> Solver:
    if not is_installed() and os.environ.get("CI") != "true":
        pytest.skip("elkai is not installed")
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
    monkeypatch.setattr(lkh3.importlib.util, "find_spec", lambda name: None)  # type: ignore[attr-defined]
    with pytest.raises(SolverMissing, match=r"pip install '\.\[lkh\]' .*non-commercial"):
        LKH3()


@pytest.mark.lkh
def test_a_run_that_fails_is_a_failed_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last line becomes the reason."""
    solver, script = lkh(), tmp_path / "script.py"
    script.write_text("print('much')\nraise SystemExit('out of luck')")
    monkeypatch.setattr(lkh3, "_SCRIPT", script)
    (answer,) = solver.solve(CITY, instances(20, 1), samples=1, seed=1)
    assert (answer.solution, answer.failure) == (None, "LKH-3 gave up: out of luck")
