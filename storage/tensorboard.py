"""TensorBoard event files made from a phase's metrics: one file for the rows between two checkpoints."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import fields

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from storage import layout
from storage.metrics import StepMetrics
from storage.store import Store

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
