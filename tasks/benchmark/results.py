"""Results of a finished benchmark: all that its report is written from."""

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
    """Answers of all methods to the same held-out instances.

    Parameters
    ----------
    spec
        What was asked for, with the ranges that hold in the city.
    card
        The model's, None where no method needs one.
    accuracy
        Share of the problem tokens of all held-out instances that the model's encoder names, None without
        a model.
    table
        A row an instance, method and number of samples, as `storage.benchmarks.RESULTS` has them.
    """

    spec: BenchmarkSpec
    card: ModelCard | None
    accuracy: float | None
    table: pa.Table

    @cached_property
    def frame(self) -> pd.DataFrame:
        """Results without routes and costs of samples, as tables and pictures take it."""
        return results_frame(self.table)


def results_frame(table: pa.Table) -> pd.DataFrame:
    """Return results without routes and costs of samples, with numbers that may be subtracted."""
    frame: pd.DataFrame = table.drop_columns(["routes", "costs"]).to_pandas()
    return frame.astype({"n": "int64", "index": "int64", "samples": "int64", "workers": "int64"})
