"""Isolated solving: what crashes or hangs costs its own instance, and the rest goes on as if nothing was."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcvrp.model.problem import City
from mcvrp.storage.labels.label_files import read_table
from mcvrp.storage.labels.schema import Label
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label import work
from mcvrp.tasks.label.attempt import plain_solving
from mcvrp.tasks.label.isolated import run_isolated
from mcvrp.tasks.label.spec import LabelSpec
from mcvrp.tasks.label.work import Failure, Outcome, Unit
from mcvrp.tasks.label.worker import label_unit
from tests.support.poison import poison

CITY = City.uniform(60, seed=3)
RECIPE = LabelSpec(dataset="d", smallest=20, largest=20, count=6, iterations=5).recipe(CITY)
UNIT = Unit(20, 0, 6, isolated=True)


def solved(unit: Unit = UNIT) -> list[Outcome]:
    with run_isolated(CITY, RECIPE, unit) as solve:
        return [solve(i) for i in range(unit.start, unit.stop)]


def same(one: Outcome, other: Outcome) -> bool:
    assert isinstance(one, Label)
    assert isinstance(other, Label)
    return (one.index, one.seed, one.solution) == (other.index, other.seed, other.solution)


def test_isolated_work_makes_the_same_labels() -> None:
    """An isolated process in which nothing goes wrong answers as the solver here."""
    here = plain_solving(CITY, RECIPE, 20)
    assert all(same(outcome, here(i)) for i, outcome in enumerate(solved()))


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "the solver died with SIGSEGV"),
        ("os._exit(3)", "the solver ended with exit code 3"),
        ("raise MemoryError('too much')", "MemoryError: too much"),
        ("time.sleep(100)", "the solver took longer than 3 s"),
        ("raise RuntimeError('no')", "HGS gave up: no"),
    ],
)
def test_a_poison_instance_costs_itself_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: str, reason: str
) -> None:
    """Any fault of the solver: it is tried three times and named with the reason, the rest solved."""
    poison(tmp_path, CITY, 20, 2, action)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(work, "LONGEST_INSTANCE", 3.0)
    outcomes = solved()
    failure = outcomes[2]
    assert isinstance(failure, Failure)
    assert (failure.i, failure.reason, failure.attempts) == (2, reason, 3)
    assert (failure.solver, failure.version.split()[0]) == ("HGS", "hybgensea")
    here = plain_solving(CITY, RECIPE, 20)
    assert all(same(outcomes[i], here(i)) for i in (0, 1, 3, 4, 5))


def test_a_crash_from_outside_changes_no_label(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is killed once is asked again with the same seed."""
    once = tmp_path / "killed"
    action = (
        f"p = pathlib.Path({str(once)!r}); p.exists() or (p.touch(), os.kill(os.getpid(), signal.SIGKILL))"
    )
    poison(tmp_path, CITY, 20, 2, action)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    here = plain_solving(CITY, RECIPE, 20)
    assert all(same(outcome, here(i)) for i, outcome in enumerate(solved()))
    assert once.exists()


def test_an_isolated_unit_declares_what_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its file has the labels there are and says which row is absent; the receipt says why."""
    poison(tmp_path, CITY, 20, 2, "os.kill(os.getpid(), signal.SIGABRT)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    store = Store.open(tmp_path / "store")
    receipt = label_unit(store, CITY, RECIPE, UNIT)
    assert receipt.rows == 5
    assert [(f.i, f.reason) for f in receipt.failures] == [(2, "the solver died with SIGABRT")]
    assert receipt.chunk is not None
    assert receipt.chunk.footer.absent == (2,)
    assert read_table(store, receipt.chunk.path)["index"].to_pylist() == [0, 1, 3, 4, 5]


def test_no_process_stays(tmp_path: Path) -> None:
    """The process apart ends with the block."""
    before = set(os.listdir("/proc"))
    with run_isolated(CITY, RECIPE, UNIT) as solve:
        solve(0)
        (child,) = (p for p in set(os.listdir("/proc")) - before if _child_of_ours(p))
    assert not Path(f"/proc/{child}").exists()


def _child_of_ours(process: str) -> bool:
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[1]) == os.getpid()
    except (OSError, IndexError):
        return False
