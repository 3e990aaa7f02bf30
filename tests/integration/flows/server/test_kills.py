"""Runs of `mcvrp ui` whose process or runner is killed, and started again."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.store.store import Store
from tests.support.command import Workplace
from tests.support.shared import running, until
from tests.support.ui import Ui, mcvrp_ui

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
# Labels of twenty seconds, in files of two.
SPEC = {"dataset": "d", "count": 70, "iterations": 400, "shard_rows": 20, "held_out": 0}


def labels(place: Workplace) -> str:
    return Dataset.open(Store.open(place.store, writable=False), "d").fingerprint()


def label(ui: Ui, **changes: Any) -> str:
    return ui.start("label", label=ui.deployment("label")["parameters"]["label"] | SPEC | changes)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The labels of a command that nothing has happened to."""
    place = Workplace.new(tmp_path_factory.mktemp("undisturbed"))
    options = [word for field, value in SPEC.items() for word in ("--set", f"label.{field}={value}")]
    assert place.mcvrp("city", "create", "--preset", "smoke").returncode == 0
    done = place.mcvrp("label", "--no-prefect", "--preset", "smoke", *options)
    assert done.returncode == 0, done.stderr
    return labels(place)


def test_after_kills_the_same_run_ends_with_equal_labels(
    undisturbed: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The run's process is killed, then `mcvrp ui`; the interrupted runs are on record."""
    place = Workplace.new(tmp_path_factory.mktemp("killed"))

    def made() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in place.store.rglob("rows-*.parquet")}

    with mcvrp_ui(place) as ui:
        ui.ended(ui.start("city"))
        first = label(ui)
        until("a shard", 240, made)
        (victim,) = running("prefect.engine", ui.process.pid)
        victim.send_signal(signal.SIGKILL)
        assert ui.ended(first)["state_type"] == "CRASHED"
        before = made()
        second = label(ui)
        until("another shard", 240, lambda: made().keys() - before.keys())
        ui.process.send_signal(signal.SIGKILL)
        ui.process.wait(60)
        between = made()
        assert before.items() <= between.items()
    with mcvrp_ui(place) as ui:
        again = label(ui)
        assert ui.ended(second, 400)["state_type"] in ("CRASHED", "COMPLETED")
        assert ui.ended(again, 400)["state_type"] == "COMPLETED"
    assert between.items() <= made().items()
    assert labels(place) == undisturbed
