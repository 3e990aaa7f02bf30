"""Metrics of a training phase, one row per logged step, as a Parquet file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields

import pyarrow as pa

from mcvrp.storage import layout
from mcvrp.storage.parquet import read_parquet, write_parquet
from mcvrp.storage.store.store import Store

_TYPES = {"int": pa.int64(), "float": pa.float64()}


@dataclass(frozen=True)
class StepMetrics:
    """Metrics since the previous row: means over tokens or instances; NaN: not trained or not measured."""

    step: int  # of the phase, as the samples
    samples: int
    problem_loss: float  # nats per token
    problem_accuracy: float
    solution_loss: float
    solution_accuracy: float
    lr: float  # of the last step
    gradient_norm: float  # of the last step, before clipping
    tokens_per_second: float  # without padding; time of checkpoints and validation excluded
    greedy_gap: float = math.nan  # mean gap in % of greedy decoding on the held-out set, after this step
    best_gap: float = math.nan  # the same for the best of several samples, in policy-gradient phases
    # Policy-gradient phases: mean and lowest cost of an instance's paths in the city's unit.
    sampled_cost: float = math.nan
    best_cost: float = math.nan


SCHEMA = pa.schema([pa.field(f.name, _TYPES[str(f.type)], nullable=False) for f in fields(StepMetrics)])


def write_metrics(store: Store, run: str, phase: str, rows: Sequence[StepMetrics]) -> None:
    """Write the metrics of a phase; replaces the file."""
    table = pa.Table.from_pylist([asdict(row) for row in rows], SCHEMA)
    write_parquet(store, layout.phase_metrics(run, phase), table)


def read_metrics(store: Store, run: str, phase: str) -> list[StepMetrics]:
    """Return the metrics of a phase in the order of steps, [] without any; McvrpError for a corrupt file."""
    path = layout.phase_metrics(run, phase)
    if not store.exists(path):
        return []
    table = read_parquet(store, path, columns=SCHEMA, named="file of training metrics")
    return [StepMetrics(**row) for row in table.to_pylist()]
