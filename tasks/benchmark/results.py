"""Results of a finished benchmark, the input of its report."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from mcvrp.storage.models.models import ModelCard
from mcvrp.tasks.benchmark.spec import BenchmarkSpec

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class BenchmarkResults:
    """Answers of all methods to the same held-out instances."""

    spec: BenchmarkSpec  # with the city's ranges of demand and capacity
    card: ModelCard | None  # None if no method needs a model
    accuracy: float | None  # of the model's encoder on the problem tokens
    table: pa.Table  # one row per instance, method and number of samples: storage.benchmarks.RESULTS

    @cached_property
    def frame(self) -> pd.DataFrame:
        """Results without routes and costs of samples, the input of tables and figures."""
        return results_frame(self.table)


def results_frame(table: pa.Table) -> pd.DataFrame:
    """Return results without routes and costs of samples, with signed integers that can be subtracted."""
    frame: pd.DataFrame = table.drop_columns(["routes", "costs"]).to_pandas()
    return frame.astype({"n": "int64", "index": "int64", "samples": "int64", "workers": "int64"})
