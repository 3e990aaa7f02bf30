"""Rows of metrics: means over tokens, rates, losses that are not finite."""

from __future__ import annotations

import math
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.store.store import Store
from mcvrp.storage.training.checkpoints import CheckpointState, Origin
from mcvrp.storage.training.metrics import StepMetrics, read_metrics
from mcvrp.tasks.train.engine import Sums
from mcvrp.tasks.train.log import TrainLog
from tests.support.datasets import everything
from tests.support.training import rank_job, small_spec

BATCH: Any = SimpleNamespace(
    problem_tokens=40,
    solution_tokens=60,
)
pytestmark = pytest.mark.usefixtures("only_rank")


def log_of(store: Store, phase: str = "II", start: CheckpointState | None = None, **spec: object) -> TrainLog:
    return TrainLog(rank_job(store, phase, start=start, spec=small_spec(**spec)))


def state(step: int, phase: str = "II") -> CheckpointState:
    return CheckpointState("small", phase, step, 100, step, Origin("", "", {}, {}, ""), {})


def sums(problem: float = 40.0, solution: float = 30.0) -> Sums:
    losses = {"problem": [problem, 10.0], "solution": [solution, 15.0]}
    return {kind: torch.tensor(values, dtype=torch.float64) for kind, values in losses.items()}


def take(log: TrainLog, steps: Iterable[int], each: Sums | None = None, **values: float) -> list[StepMetrics]:
    rows = []
    for step in steps:
        log.add(step, each or sums(), BATCH)
        rows.append(log.close_row(0.01, 0.5, **values))
    return rows


def test_a_row_is_the_mean_over_its_tokens(store: Store) -> None:
    """Losses are per token of all steps since the row before; what was not measured is NaN."""
    log = log_of(store)
    log.add(1, sums(problem=20.0), BATCH)
    log.add(2, sums(problem=60.0), BATCH)
    row = log.close_row(0.01, 0.5)
    assert (row.step, row.samples) == (2, 24)
    assert row.problem_loss == 1.0
    assert row.solution_loss == 0.5
    assert row.problem_accuracy == row.solution_accuracy == 0.25
    assert math.isnan(row.greedy_gap)
    assert take(log, [3], greedy_gap=7.5)[0].greedy_gap == 7.5


def test_an_encoder_phase_has_no_metrics_of_the_decoder(store: Store) -> None:
    """Solution tokens count neither in the losses nor in the rates."""
    log = log_of(store, "I")
    log.add(1, {"problem": sums()["problem"]}, BATCH)
    row = log.close_row(0.01, 0.5)
    assert math.isnan(row.solution_loss)
    assert math.isnan(row.solution_accuracy)


def test_decoding_is_excluded_from_the_rates(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("mcvrp.tasks.train.log.time.monotonic", lambda: now)
    log = log_of(store)
    log.add(1, sums(), BATCH)
    now += 2.0
    with log.clock_stopped():
        now += 100.0
    assert log.close_row(0.01, 0.5).tokens_per_second == 100 / 2.0


def test_rows_are_read_back(store: Store) -> None:
    """A resumed job overwrites the rows beyond its checkpoint."""
    log = log_of(store)
    take(log, [1, 2], greedy_gap=9.0)
    log.save()
    take(log, [3, 4])
    log.save()
    before = everything(store, "training")
    log.save()  # without a new row
    assert everything(store, "training") == before
    resumed = log_of(store, start=state(2))
    assert [row.step for row in resumed.rows] == [1, 2]
    take(resumed, [3, 4, 5], greedy_gap=8.0)
    resumed.save()
    rows = read_metrics(store, "small", "II")
    assert [(row.step, row.greedy_gap) for row in rows] == [(1, 9.0), (2, 9.0), (3, 8.0), (4, 8.0), (5, 8.0)]


def test_corrupt_metrics_are_an_error(store: Store) -> None:
    assert read_metrics(store, "small", "II") == []
    store.put(layout.phase_metrics("small", "II"), b"PAR1 no")
    with pytest.raises(McvrpError, match="not a readable file of training metrics"):
        read_metrics(store, "small", "II")


def test_a_loss_that_is_not_finite_names_its_step(store: Store) -> None:
    """NaN in one of several steps: the error has that step and the remedy; a gradient's is the last."""
    log = log_of(store)
    for step, loss in ((1, 30.0), (2, math.nan), (3, math.inf)):
        log.add(step, sums(solution=loss), BATCH)
    with pytest.raises(McvrpError, match=r"phase II is not finite, at step 2: .* with an lr below 0\.005"):
        log.close_row(0.01, 0.5)
    log = log_of(store)
    log.add(1, sums(), BATCH)
    with pytest.raises(McvrpError, match="gradient that is not finite, at step 1"):
        log.close_row(0.01, math.nan)
