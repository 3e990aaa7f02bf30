"""Rows of metrics: means over tokens, rates, divergence, events for TensorBoard."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import astuple, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from mcvrp.model.curriculum import Samples
from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.store.lease import Holder, Lease
from mcvrp.storage.store.store import Store
from mcvrp.storage.training.checkpoints import CheckpointState, Origin
from mcvrp.storage.training.metrics import StepMetrics, read_metrics
from mcvrp.tasks.train.engine import Sums
from mcvrp.tasks.train.job import RankJob
from mcvrp.tasks.train.log import TrainLog, Watch
from tests.support.training import small_spec

CITY = City.uniform(60, seed=3)
ORIGIN = Origin(CITY.city_id, "f" * 64, {}, {}, "")
BATCH: Any = SimpleNamespace(
    samples=Samples(np.array([21, 20, 22, 20]), np.array([7, 3, 0, 1])),
    problem_tokens=40,
    solution_tokens=60,
    computed_tokens=lambda: (50, 75),
)


pytestmark = pytest.mark.usefixtures("only_rank")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path)


def make_job(
    store: Store, phase: str = "II", start: CheckpointState | None = None, **changes: object
) -> RankJob:
    spec = small_spec(**changes)
    return RankJob(
        store=store,
        city=CITY,
        spec=spec,
        phase=phase,
        counts=(30, 30, 30),
        origin=ORIGIN,
        start=start,
        ranks=1,
        cores=1,
        cache=Path(),
        lease=Lease(store, "lease.json", "the run is being trained", Holder.here(), ""),
    )


def state(step: int, phase: str = "II") -> CheckpointState:
    return CheckpointState("small", phase, step, 100, step, ORIGIN, {})


def sums(problem: float = 40.0, solution: float = 30.0) -> Sums:
    losses = {"problem": [problem, 10.0], "solution": [solution, 15.0]}
    return {kind: torch.tensor(values, dtype=torch.float64) for kind, values in losses.items()}


def take(log: TrainLog, steps: Iterable[int], **values: float) -> list[StepMetrics]:
    rows = []
    for step in steps:
        log.add(step, sums(), BATCH)
        rows.append(log.close_row(0.01, 0.5, **values))
    return rows


def test_a_row_is_the_mean_over_its_tokens(store: Store) -> None:
    """Losses are per token of all steps since the row before; what was not measured is NaN."""
    log = TrainLog(make_job(store))
    log.add(1, sums(problem=20.0), BATCH)
    log.add(2, sums(problem=60.0), BATCH)
    row = log.close_row(0.01, 0.5)
    assert (row.step, row.samples) == (2, 24)
    assert row.problem_loss == 1.0
    assert row.solution_loss == 0.5
    assert row.problem_accuracy == row.solution_accuracy == 0.25
    assert row.padding == pytest.approx(1 - 100 / 125)
    assert math.isnan(row.greedy_gap)
    assert take(log, [3], greedy_gap=7.5)[0].greedy_gap == 7.5


def test_an_encoder_phase_has_no_metrics_of_the_decoder(store: Store) -> None:
    """Solution tokens count neither in the losses nor in the rates."""
    log = TrainLog(make_job(store, "I"))
    log.add(1, {"problem": sums()["problem"]}, BATCH)
    row = log.close_row(0.01, 0.5)
    assert math.isnan(row.solution_loss)
    assert math.isnan(row.solution_accuracy)
    assert row.padding == pytest.approx(1 - 40 / 50)


def test_decoding_is_excluded_from_the_rates(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Time within `clock_stopped` does not count."""
    now = 0.0
    monkeypatch.setattr("mcvrp.tasks.train.log.time.monotonic", lambda: now)
    log = TrainLog(make_job(store))
    log.add(1, sums(), BATCH)
    now += 2.0
    with log.clock_stopped():
        now += 100.0
    assert log.close_row(0.01, 0.5).tokens_per_second == 100 / 2.0


def test_rows_and_events_are_read_back(store: Store, tmp_path: Path) -> None:
    """TensorBoard reads the same values; a resumed job overwrites the rows beyond its checkpoint."""
    log = TrainLog(make_job(store))
    take(log, [1, 2], greedy_gap=9.0)
    log.save()
    take(log, [3, 4])
    log.save()
    resumed = TrainLog(make_job(store, start=state(2)))
    assert [row.step for row in resumed.rows] == [1, 2]
    take(resumed, [3, 4, 5], greedy_gap=8.0)
    resumed.save()
    rows = read_metrics(store, "small", "II")
    assert [row.step for row in rows] == [1, 2, 3, 4, 5]
    files = [path for path in store.list("training/small/II") if "tfevents" in path]
    assert len(files) == 2
    events = EventAccumulator(str(tmp_path / "training/small/II"))
    events.Reload()
    assert [(e.step, e.value) for e in events.Scalars("loss/solution")] == [(s, 0.5) for s in range(1, 6)]
    gaps = [(e.step, e.value) for e in events.Scalars("greedy_gap")]
    assert gaps == [(1, 9.0), (2, 9.0), (3, 8.0), (4, 8.0), (5, 8.0)]
    assert {"accuracy/problem", "lr", "gradient_norm", "tokens_per_second", "padding"} <= set(
        events.Tags()["scalars"]
    )


def test_corrupt_metrics_are_an_error(store: Store) -> None:
    """Metrics of a phase without any are an empty list, a corrupt file is named."""
    assert read_metrics(store, "small", "II") == []
    store.put(layout.phase_metrics("small", "II"), b"PAR1 no")
    with pytest.raises(McvrpError, match="not a readable file of training metrics"):
        read_metrics(store, "small", "II")


def test_saving_without_a_new_row_changes_nothing(store: Store) -> None:
    """Metrics and events stay as they are."""
    log = TrainLog(make_job(store))
    take(log, [1, 2])
    log.save()
    before = {path: store.get(path) for path in store.list("training")}
    log.save()
    assert {path: store.get(path) for path in store.list("training")} == before
    assert [astuple(row)[:2] for row in read_metrics(store, "small", "II")] == [(1, 12), (2, 24)]


def test_a_loss_that_is_not_finite_names_step_batch_and_checkpoint(store: Store) -> None:
    """NaN in one of several steps: the error has that step, its batch and the last good checkpoint."""
    log = TrainLog(make_job(store, start=state(7, "I")))
    log.add(1, sums(), BATCH)
    log.add(2, sums(solution=math.nan), replace_samples(BATCH, [22, 21], [5, 6]))
    log.add(3, sums(problem=math.inf), BATCH)
    with pytest.raises(McvrpError) as error:
        log.close_row(0.01, 0.5)
    message = str(error.value)
    assert "the loss of phase II is not finite, at step 2 (batch 2 of dataset 'tiny'" in message
    assert f"fingerprint {'f' * 12}: 2 samples of n=21 to 22, the first row 5 of n=22, row 6 of" in message
    assert "last good checkpoint: " in message
    assert "/training/small/I/step-00000007" in message
    assert "with an lr below 0.005" in message
    assert "\n" not in message


def test_a_gradient_that_is_not_finite_names_the_last_step(store: Store) -> None:
    """It stops the run as well; before the first checkpoint the error names none."""
    log = TrainLog(make_job(store))
    log.add(1, sums(), BATCH)
    with pytest.raises(McvrpError, match=r"gradient that is not finite, at step 1 .*checkpoint: none"):
        log.close_row(0.01, math.nan)


def test_divergence_stops_a_resumed_run_at_the_same_step(store: Store) -> None:
    """The rows before the checkpoint count."""
    job = make_job(store, diverged_after=10)
    steps, log = iter(range(1, 100)), TrainLog(job)
    take(log, [next(steps) for _ in range(5)])
    bad = sums(solution=60 * 40.0)
    for _ in range(4):
        log.add(next(steps), bad, BATCH)
        log.close_row(0.01, 0.5)
    log.save()
    resumed = TrainLog(replace(job, start=state(9)))

    def until_it_stops(log: TrainLog) -> None:
        for step in range(10, 100):
            log.add(step, bad, BATCH)
            log.close_row(0.01, 0.5)

    for one in (log, resumed):
        with pytest.raises(McvrpError, match=r"has diverged: 40 on solution tokens.*at step 16 "):
            until_it_stops(one)


def replace_samples(batch: Any, sizes: list[int], rows: list[int]) -> Any:
    return SimpleNamespace(**{**vars(batch), "samples": Samples(np.array(sizes), np.array(rows))})


def test_metrics_without_later_columns_are_read(store: Store) -> None:
    """A file without the column of the held-out gap is one in which it was never measured."""
    log = TrainLog(make_job(store))
    take(log, [1, 2], greedy_gap=9.0)
    log.save()
    path = layout.phase_metrics("small", "II")
    table = pq.read_table(pa.BufferReader(store.get(path))).drop_columns("greedy_gap")
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    store.put(path, buffer.getvalue())
    rows = read_metrics(store, "small", "II")
    assert [row.step for row in rows] == [1, 2]
    assert all(math.isnan(row.greedy_gap) for row in rows)


def watched_row(step: int, problem: float, solution: float = math.nan) -> StepMetrics:
    return StepMetrics(step, step, problem, 0.5, solution, 0.5, 0.01, 1.0, 1e4, 0.0)


def divergence(losses: Sequence[float], limit: int = 20, every: int = 1) -> tuple[str, int] | None:
    """Return the first message of a watch among 101 nodes, and the step of its row."""
    watch = Watch("problem", 101, limit)
    for k, loss in enumerate(losses, start=1):
        if message := watch.update(watched_row(k * every, loss)):
            return message, k * every
    return None


def test_a_double_descent_is_no_divergence() -> None:
    """A loss that falls, stays on a plateau, rises and falls again is trained to its end (Sec. 6.1)."""
    falls = np.linspace(4.6, 1.2, 100)
    curve = [*falls, *[1.2] * 5000, *np.linspace(1.2, 2.0, 500), *[2.0] * 2000, *np.linspace(2.0, 0.09, 500)]
    assert divergence(curve) is None


@pytest.mark.parametrize("best", [0.002, 0.3, 2.0])
def test_a_loss_that_stays_far_above_its_best_is_a_divergence(best: float) -> None:
    """Above five times and one nat over the best, or above uniform guessing, for more than `limit` steps."""
    bound = min(math.log(101), max(5 * best, best + 1))
    assert divergence([best] * 50 + [bound - 0.01] * 500) is None
    diverged = divergence([best] * 50 + [bound + 0.01] * 500)
    assert diverged is not None
    assert diverged[1] == 50 + 20 + 1
    assert "has diverged" in diverged[0]
    assert "on problem tokens" in diverged[0]


def test_a_spike_is_no_divergence() -> None:
    """Only consecutive steps count: a loss that recovers in time may rise again."""
    assert divergence(([0.5] * 5 + [9.0] * 20) * 40) is None


def test_never_better_than_guessing_is_a_divergence() -> None:
    """A loss above ln(choices) from the start has `limit` steps to fall."""
    assert divergence([5.0] * 20 + [4.0] * 100) is None
    diverged = divergence([5.0] * 100)
    assert diverged is not None
    assert diverged[1] == 21
    assert "uniform guessing 4.62" in diverged[0]


def test_steps_are_counted_not_rows() -> None:
    """A row counts for all steps since the previous row."""
    assert divergence([0.5] + [9.0] * 2, every=10) is None
    diverged = divergence([0.5] + [9.0] * 3, every=10)
    assert diverged is not None
    assert diverged[1] == 40


def test_a_stream_that_is_not_trained_is_not_watched() -> None:
    """NaN in a row: the phase does not train the stream (NaN of a step is an error before)."""
    watch = Watch("solution", 21, 1)
    assert all(watch.update(watched_row(step, 1.0)) is None for step in range(1, 50))
