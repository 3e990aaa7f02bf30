"""Ctrl-C and SIGTERM end a stage within ten seconds, and what it has stored is kept."""

from __future__ import annotations

import hashlib
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.command import Workplace
from tests.support.shared import until

pytestmark = pytest.mark.slow

_SECONDS = 10.0
METHODS = 'benchmark.methods=["hgs", "fm-gs"]'
# Of each stage: settings that make it long, and what it stores on the way, below the store.
STAGES = {
    "label": (
        ("label.dataset=long", "label.held_out=0", "label.count=20000"),
        "labels/long/data/*/*.parquet",
    ),
    "train": (
        ("train.run=long", "train.model=long", "train.phases.0.passes=5000", "train.checkpoint_every=20"),
        "training/long/I/*/state.json",
    ),
    "benchmark": (
        ("benchmark.run=long", "benchmark.instances=2000", METHODS),
        "benchmarks/long/parts/**/*.parquet",
    ),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    """A workplace in which the smoke preset has run: each stage finds what it needs."""
    place = Workplace.new(tmp_path_factory.mktemp("interrupts"))
    done = place.mcvrp("run", "--no-prefect", "--preset", "smoke", "--set", METHODS)
    assert done.returncode == 0, done.stderr
    return place


# PyTorch's launcher of ranks has handlers of its own; on all others each signal is a KeyboardInterrupt.
@pytest.mark.parametrize(
    ("stage", "number"),
    [
        ("label", signal.SIGINT),
        ("train", signal.SIGINT),
        ("train", signal.SIGTERM),
        ("benchmark", signal.SIGTERM),
    ],
)
def test_a_stage_ends_in_time_and_keeps_what_is_finished(
    place: Workplace, stage: str, number: signal.Signals
) -> None:
    settings, pattern = STAGES[stage]

    def stored() -> dict[Path, str]:
        return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in place.store.glob(pattern)}

    before = stored()
    command = [sys.executable, "-m", "mcvrp.flows.cli.main", stage, "--preset", "smoke"]
    log = place.folder / f"{stage}-{number.name}.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [*command, *(word for setting in settings for word in ("--set", setting))],
            env=place.environment(),
            stdout=output,
            stderr=output,
        )
    try:
        until("files", 300, lambda: process.poll() is not None or len(stored().keys() - before.keys()) > 1)
        finished = stored()
        process.send_signal(number)
        began = time.monotonic()
        assert process.wait(60) == 130, log.read_text()
        assert time.monotonic() - began < _SECONDS
    finally:
        process.kill()
    assert "start again to resume" in log.read_text() or "resumes from there" in log.read_text()
    kept = stored()  # training removes a checkpoint when there are later ones
    assert kept.keys() >= finished.keys() or max(kept) > max(finished)
    assert all(finished[path] == kept[path] for path in finished.keys() & kept.keys())
    until("the end of all processes", 60, lambda: not place.processes())
