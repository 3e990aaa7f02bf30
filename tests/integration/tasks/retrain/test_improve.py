"""The improvement loop as a command: killed, restarted, finished, and run again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mcvrp.model.problem import City
from mcvrp.storage.cities import save_city
from mcvrp.storage.layout import ROUND
from mcvrp.storage.models.models import versions
from mcvrp.storage.store.store import Store
from mcvrp.storage.trials import trial_records
from mcvrp.tasks.train.phases import train
from tests.support.command import Workplace
from tests.support.datasets import everything
from tests.support.training import alone, nudge, small_spec, write_dataset

CITY = City.uniform(60, seed=3)
CHANGES = ("city.name=small", "improve.model=small", "improve.count=12", "improve.instances=2")
COMMAND = ("improve", "--preset", "smoke", *(word for change in CHANGES for word in ("--set", change)))


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    """A workplace with a city, labels of maximum cost, and an untrained model."""
    place = Workplace.new(tmp_path)
    store = Store.open(place.store)
    save_city(store, "small", CITY)
    write_dataset(store, CITY, range(20, 23), 12, solve=alone)
    train(store, CITY, small_spec(), tmp_path / "cache", nudge)
    return place


def killed_when(place: Workplace, reached: Callable[[], bool]) -> None:
    """Start the loop, and kill all its processes as soon as it has ``reached`` a state."""
    process = subprocess.Popen(
        [sys.executable, "-m", "mcvrp.flows.cli.main", *COMMAND],
        env=place.environment(),
        stderr=subprocess.PIPE,
    )
    deadline = time.monotonic() + 200
    while not reached():
        assert process.poll() is None, process.stderr and process.stderr.read().decode()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    while there := place.processes():
        for each in there:
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        process.wait()
    assert process.stderr is not None
    process.stderr.close()
    assert process.returncode == -signal.SIGKILL


@pytest.mark.slow
def test_two_rounds_survive_being_killed(place: Workplace) -> None:
    """Killed during improvement and comparison, it completes; a repeated call changes nothing."""
    rounds = place.store / "rounds" / "small"
    killed_when(place, lambda: bool(list(rounds.rglob("rows-*.parquet"))))
    first = {path: path.stat().st_mtime_ns for path in rounds.rglob("rows-*.parquet")}
    killed_when(place, lambda: bool(list(rounds.rglob("comparison.parquet"))))
    assert all(path.stat().st_mtime_ns == when for path, when in first.items())

    done = place.mcvrp(*COMMAND)
    assert done.returncode == 0, done.stderr
    store = Store.open(place.store)
    records = trial_records(store, "small", ROUND)
    assert [(record.number, record.challenger) for record in records] == [(1, 2), (2, 3)]
    assert versions(store, "small") == [1, 2, 3]
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [line[:2] for line in lines[2:4]] == [["1", "12"], ["2", "12"]], done.stdout
    assert lines[2][2] == "12"  # whatever a model proposes is better than a vehicle a customer

    before = everything(store)
    again = place.mcvrp(*COMMAND)
    assert again.returncode == 0, again.stderr
    assert "2, all done before" in again.stdout
    assert everything(store) == before
