"""Training that is killed repeatedly ends with the bytes of an undisturbed run."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import numpy as np
import pytest

from mcvrp.model.errors import IncompleteError
from mcvrp.storage.store.store import Store
from mcvrp.storage.training.checkpoints import (
    CheckpointState,
    latest_checkpoint,
)
from mcvrp.storage.training.metrics import StepMetrics, read_metrics
from mcvrp.tasks.train import phases as stage
from mcvrp.tasks.train.job import RankEvent
from mcvrp.tasks.train.phases import Launcher
from mcvrp.tasks.train.spec import TrainSpec
from tests.support.driven_training import DrivenRun, Part
from tests.support.forked_ranks import forked
from tests.support.training import CITY, metric_rows, small_spec

pytestmark = pytest.mark.slow

PHASE = small_spec().phases[1].model_copy(update={"name": "only", "passes": 6})  # 45 steps


def spec_of(run: str, ranks: int, **changes: object) -> TrainSpec:
    values = {"run": run, "phases": (PHASE,), "ranks": ranks, "checkpoint_every": 3, "restarts": 99}
    return small_spec(**values | changes)


def train(store: Store, spec: TrainSpec, cache: Path, launch: Launcher) -> CheckpointState:
    """Train the phase to its end and return its last checkpoint."""
    stage.train_phase(store, CITY, spec, "only", cache, launch)
    state = latest_checkpoint(store, spec.run, "only")
    assert state is not None
    return state


def assert_same(store: Store, run: str, other: str) -> None:
    """Check that two runs have the same metrics and the same weights and moments, bit for bit."""
    np.testing.assert_array_equal(metric_rows(store, run, "only"), metric_rows(store, other, "only"))
    one, two = (latest_checkpoint(store, name, "only") for name in (run, other))
    assert one is not None
    assert two is not None
    assert one.files == two.files


def test_a_run_whose_parts_are_killed_is_the_uninterrupted_one(store: Store, tmp_path: Path) -> None:
    """Any part of a real run is killed: no process of it survives, and the same command resumes exactly."""
    parts: tuple[Part, ...] = ("rank", "driver", "everything")
    changes = {"phases": (PHASE.model_copy(update={"passes": 14}),)}
    train(store, spec_of("whole", 2, **changes), tmp_path / "cache", forked())
    run = DrivenRun(store, tmp_path / "cache", spec_of("killed", 2, **changes), random.Random(2))
    try:
        for part in parts:
            assert run.kill(part), run.output
        assert run.finish() == 0, run.output
    finally:
        run.close()
    restarts = [line for line in run.output if "restarted from step" in line]
    assert len(restarts) == parts.count("rank")
    assert_same(store, "killed", "whole")


@pytest.mark.parametrize("order", ["paper", "bucketed"])
def test_a_run_resumes_on_another_number_of_ranks(store: Store, tmp_path: Path, order: str) -> None:
    """Started by one rank, resumed by two and then three: the batches and losses of one."""
    network = small_spec().network.model_copy(update={"dropout": 0.0})
    phases = (PHASE.model_copy(update={"passes": 3}),)  # 22 steps
    changes = {"network": network, "phases": phases, "order": order, "micro_tokens": 300}
    whole, moved = spec_of("whole", 1, **changes), spec_of("moved", 1, **changes)
    last = train(store, whole, tmp_path / "cache", forked())
    for ranks, zero, stop in ((1, 0, 6), (2, 1, 12), (3, 2, None)):
        spec = moved.model_copy(update={"ranks": ranks, "zero": zero, "restarts": 0})

        def kill_all(event: RankEvent, count: int, stop: int | None = stop) -> list[int]:
            after = stop is not None and isinstance(event, StepMetrics) and event.step > stop
            return list(range(count)) if after else []

        with pytest.raises(IncompleteError) if stop else contextlib.nullcontext():
            state = train(store, spec, tmp_path / "cache", forked(kill_all))
    assert state.step == last.step >= 20
    one, several = (read_metrics(store, run, "only") for run in ("whole", "moved"))
    for a, b in zip(one, several, strict=True):
        assert (a.step, a.samples, a.lr) == (b.step, b.samples, b.lr)
        losses = [(a.problem_loss, b.problem_loss), (a.solution_loss, b.solution_loss)]
        np.testing.assert_allclose(*zip(*losses, strict=True), rtol=0, atol=1e-5)  # type: ignore[call-overload]
