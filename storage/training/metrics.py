"""Metrics of a training phase, a row a logged step: a Parquet file a phase, and TensorBoard events."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, asdict, dataclass, fields

import pyarrow as pa
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from mcvrp.storage import layout
from mcvrp.storage.parquet import read_parquet, write_parquet
from mcvrp.storage.store.store import Store
from mcvrp.storage.versions import METRICS

_TYPES = {"int": pa.int64(), "float": pa.float64()}


@dataclass(frozen=True)
class StepMetrics:
    """Metrics since the row before; losses are means over tokens, accuracies shares of tokens.

    Parameters
    ----------
    step, samples
        Of the phase so far.
    problem_loss, problem_accuracy, solution_loss, solution_accuracy
        NaN for solution tokens where only the encoder is trained.
    lr, gradient_norm
        Of the last step; the norm is taken before clipping.
    tokens_per_second
        Problem and solution tokens, padding not counted, checkpoints left out.
    padding
        Share of the computed tokens that were padding.
    greedy_gap
        Mean gap in % of the held-out instances, routed greedily after this step; NaN where it
        was not measured.
    best_gap
        The same of the best of several samples; NaN in phases that learn from labels alone.
    sampled_cost, best_cost
        Means over the step's instances, in the city's unit: what a path that was drawn for one costs, and
        the cheapest of them; NaN but in phases by policy.
    spread
        Standard deviation of what the paths of an instance cost, in % of their mean; as above.
    """

    step: int
    samples: int
    problem_loss: float
    problem_accuracy: float
    solution_loss: float
    solution_accuracy: float
    lr: float
    gradient_norm: float
    tokens_per_second: float
    padding: float
    greedy_gap: float = math.nan
    best_gap: float = math.nan
    sampled_cost: float = math.nan
    best_cost: float = math.nan
    spread: float = math.nan


SCHEMA = pa.schema([pa.field(f.name, _TYPES[str(f.type)], nullable=False) for f in fields(StepMetrics)])


def write_metrics(store: Store, run: str, phase: str, rows: Sequence[StepMetrics]) -> None:
    """Write the metrics of a phase, over what was there."""
    table = pa.Table.from_pylist([asdict(row) for row in rows], SCHEMA)
    write_parquet(store, layout.phase_metrics(run, phase), table, METRICS)


def read_metrics(store: Store, run: str, phase: str) -> list[StepMetrics]:
    """Return the metrics of a phase in the order of steps, [] when there are none.

    Raises
    ------
    McvrpError
        If the file is not one of metrics.
    """
    path = layout.phase_metrics(run, phase)
    if not store.exists(path):
        return []
    later = {f.name: f.default for f in fields(StepMetrics) if f.default is not MISSING}  # files of before
    table = read_parquet(store, path, METRICS, columns=SCHEMA, later=later, named="file of training metrics")
    return [StepMetrics(**row) for row in table.to_pylist()]


_VERSION = "brain.Event:2"  # what a file of events has to begin with
_TAGS = {f.name: f.name for f in fields(StepMetrics) if f.name not in ("step", "samples")} | {
    f"{stream}_{quantity}": f"{quantity}/{stream}"  # one chart section a quantity
    for stream in ("problem", "solution")
    for quantity in ("loss", "accuracy")
}


def write_events(
    store: Store, run: str, phase: str, rows: Sequence[StepMetrics], times: Sequence[float]
) -> None:
    """Write the events of ``rows``, which were closed at ``times`` (seconds since 1970).

    The file is named by the first of the steps: a run that goes on from the checkpoint before
    them writes over it.
    """
    if rows:
        store.put(layout.phase_events(run, phase, rows[0].step), _records(_events(rows, times)))


def _events(rows: Sequence[StepMetrics], times: Sequence[float]) -> Iterable[Event]:
    yield Event(wall_time=times[0], file_version=_VERSION)
    for row, at in zip(rows, times, strict=True):
        found = {tag: getattr(row, name) for name, tag in _TAGS.items()}
        values = [Summary.Value(tag=t, simple_value=v) for t, v in found.items() if not math.isnan(v)]
        yield Event(wall_time=at, step=row.step, summary=Summary(value=values))


def _records(events: Iterable[Event]) -> bytes:
    buffer = io.BytesIO()
    writer = RecordWriter(buffer)
    for event in events:
        writer.write(event.SerializeToString())
    return buffer.getvalue()
