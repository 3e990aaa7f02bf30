"""Statistics of labels: totals of a file, kept in its footer, and from these the means of each size."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from mcvrp.storage.labels.label_files import LabelFile


@dataclass(frozen=True)
class Totals:
    """Totals over labels: cost in the city's unit, number of routes, solver time in seconds."""

    cost: float
    routes: int
    runtime: float

    @classmethod
    def of(cls, table: pa.Table) -> Totals:
        """Return the totals of ``table``, labels of one size."""
        import pyarrow.compute as pc  # imported here: commands that never get here start faster

        cost, runtime = (float(table[name].to_numpy().sum()) for name in ("cost", "runtime"))
        return cls(cost, int(pc.list_value_length(table["routes"]).to_numpy().sum()), runtime)

    def encode(self) -> str:
        """Return the totals as JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def decode(cls, text: str) -> Totals:
        """Return the totals in ``text``, the result of `encode`."""
        return cls(**json.loads(text))


@dataclass(frozen=True)
class SizeStatistics:
    """All labels of size ``n``: the means of `Totals`."""

    n: int
    rows: int
    absent: int  # instances without label
    bytes: int  # of the files
    cost: float
    routes: float
    runtime: float

    @property
    def seconds(self) -> float:
        """Solver time of all labels."""
        return self.rows * self.runtime


def size_statistics(files: Iterable[LabelFile]) -> list[SizeStatistics]:
    """Return the statistics of each size with labels from the footers of all ``files``, by size and row."""
    statistics = []
    for n, of_size in groupby(files, key=lambda file: file.footer.n):
        stored = list(of_size)
        if not (rows := sum(file.footer.rows for file in stored)):
            continue
        totals = [Totals.decode(file.footer.figures) for file in stored]
        statistics.append(
            SizeStatistics(
                n=n,
                rows=rows,
                absent=sum(len(file.footer.absent) for file in stored),
                bytes=sum(file.bytes for file in stored),
                cost=sum(each.cost for each in totals) / rows,
                routes=sum(each.routes for each in totals) / rows,
                runtime=sum(each.runtime for each in totals) / rows,
            )
        )
    return statistics
