"""Statistics of labels: figures of a file, kept in its footer, and from these the statistics of each size."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

if TYPE_CHECKING:
    from mcvrp.storage.labels.label_files import LabelFile


@dataclass(frozen=True)
class Moments:
    """Mean of a quantity over ``rows`` labels, and the sum of squared deviations from it."""

    rows: int
    mean: float
    squares: float

    @classmethod
    def of(cls, values: NDArray[np.number]) -> Moments:
        """Return the moments of ``values``, ``(rows,)``."""
        mean = float(values.mean()) if len(values) else 0.0
        return cls(len(values), mean, float(((values - mean) ** 2).sum()))

    @classmethod
    def joined(cls, parts: Sequence[Moments]) -> Moments:
        """Return the moments of all rows of ``parts``."""
        rows = sum(part.rows for part in parts)
        mean = sum(part.rows * part.mean for part in parts) / rows
        return cls(rows, mean, sum(part.squares + part.rows * (part.mean - mean) ** 2 for part in parts))

    @property
    def std(self) -> float:
        """Sample standard deviation, 0 of a single label."""
        return (self.squares / max(self.rows - 1, 1)) ** 0.5


@dataclass(frozen=True)
class FileFigures:
    """What the statistics of a size need of a file with labels."""

    cost: Moments  # total cost, in the city's unit
    routes: Moments  # number of routes
    runtime: Moments  # solver time in seconds

    @classmethod
    def of(cls, table: pa.Table) -> FileFigures:
        """Return the figures of ``table``, labels of one size."""
        import pyarrow.compute as pc  # imported here: commands that never get here start faster

        columns = table["cost"], pc.list_value_length(table["routes"]), table["runtime"]
        return cls(*(Moments.of(column.to_numpy()) for column in columns))

    def encode(self) -> str:
        """Return the figures as JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def decode(cls, text: str) -> FileFigures:
        """Return the figures in ``text``, the result of `encode`."""
        return cls(**{name: Moments(**moments) for name, moments in json.loads(text).items()})


@dataclass(frozen=True)
class SizeStatistics(FileFigures):
    """Figures of all labels of size ``n``."""

    n: int
    rows: int
    absent: int  # instances without label
    bytes: int  # of the files


def size_statistics(files: Iterable[LabelFile]) -> list[SizeStatistics]:
    """Return the statistics of each size with labels from the footers of all ``files``, by size and row."""
    statistics = []
    for n, of_size in groupby(files, key=lambda file: file.footer.n):
        stored = list(of_size)
        figures = [FileFigures.decode(file.footer.figures) for file in stored if file.footer.rows]
        if not figures:
            continue
        statistics.append(
            SizeStatistics(
                cost=Moments.joined([each.cost for each in figures]),
                routes=Moments.joined([each.routes for each in figures]),
                runtime=Moments.joined([each.runtime for each in figures]),
                n=n,
                rows=sum(file.footer.rows for file in stored),
                absent=sum(len(file.footer.absent) for file in stored),
                bytes=sum(file.bytes for file in stored),
            )
        )
    return statistics
