"""Isolated solving: a crash or a hang costs its own instance, the others have the labels of any process."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from mcvrp.model.problem import City
from mcvrp.storage.labels.label_files import read_footer, read_table
from mcvrp.storage.labels.schema import Label
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label import work
from mcvrp.tasks.label.solving import solving
from mcvrp.tasks.label.spec import LabelSpec
from mcvrp.tasks.label.work import Unit
from mcvrp.tasks.label.worker import WorkerContext, label_unit, solve_rows
from tests.support.labels import poison

CITY = City.uniform(60, seed=3)
RECIPE = LabelSpec(dataset="d", smallest=20, largest=20, count=6, iterations=5).recipe(CITY)
UNIT = Unit(20, 0, 6, isolated=True)
ROWS = range(6)


def solved(unit: Unit = UNIT) -> tuple[dict[int, Label], dict[int, str]]:
    with solving(CITY, RECIPE, unit) as attempt:
        return solve_rows(unit, CITY, RECIPE.seed, attempt)


@pytest.fixture(scope="module")
def expected() -> dict[int, Label]:
    """Labels by the solver in this process."""
    return solved(replace(UNIT, isolated=False))[0]


def same(one: Label | str, other: Label | str) -> bool:
    assert isinstance(one, Label)
    assert isinstance(other, Label)
    return (one.index, one.seed, one.solution) == (other.index, other.seed, other.solution)


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "the solver died with SIGSEGV"),
        ("os._exit(3)", "the solver ended with exit code 3"),
        ("raise MemoryError('too much')", "MemoryError: too much"),
        ("time.sleep(100)", "the solver took longer than 2 s"),
        ("raise RuntimeError('no')", "HGS gave up: no"),
    ],
)
def test_a_poison_instance_costs_itself_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: dict[int, Label], action: str, reason: str
) -> None:
    """It has the reason; the unit's file declares its row absent."""
    poison(tmp_path, CITY, 20, 2, action)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(work, "LONGEST_INSTANCE", 2.0)
    labels, failed = solved()
    assert failed == {2: reason}
    assert all(same(labels[i], expected[i]) for i in ROWS if i != 2)
    if "exit code" in reason:
        store = Store.open(tmp_path / "store")
        receipt = label_unit(UNIT, WorkerContext(store, CITY, RECIPE))
        assert (receipt.rows, receipt.absent) == (5, {2: reason})
        assert read_footer(store, UNIT.path("d")).absent == {2: reason}
        assert read_table(store, UNIT.path("d"))["index"].to_pylist() == [0, 1, 3, 4, 5]


def test_a_crash_from_outside_changes_no_label(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: dict[int, Label]
) -> None:
    """A process that is killed once gets the same request again, and none is left in the end."""
    once = tmp_path / "killed"
    poison(
        tmp_path,
        CITY,
        20,
        2,
        f"p = pathlib.Path({str(once)!r}); p.exists() or (p.touch(), os.kill(os.getpid(), signal.SIGKILL))",
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    before = set(psutil.Process().children())
    with solving(CITY, RECIPE, UNIT) as solve:
        assert all(same(solve(i, expected[i].seed), expected[i]) for i in ROWS)
        (child,) = set(psutil.Process().children()) - before
    assert once.exists()
    assert not child.is_running()
