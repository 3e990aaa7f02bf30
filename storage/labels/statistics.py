"""Statistics of labels: the means of each size, from the totals in the footers of its files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from mcvrp.storage.labels.label_files import LabelFile


@dataclass(frozen=True)
class SizeStatistics:
    """All labels of size ``n``: the means of cost (in the city's unit), routes and runtime (in seconds)."""

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
        footers = [file.footer for file in stored]
        if rows := sum(footer.rows for footer in footers):
            statistics.append(
                SizeStatistics(
                    n=n,
                    rows=rows,
                    absent=sum(len(footer.absent) for footer in footers),
                    bytes=sum(file.bytes for file in stored),
                    cost=sum(footer.cost for footer in footers) / rows,
                    routes=sum(footer.routes for footer in footers) / rows,
                    runtime=sum(footer.runtime for footer in footers) / rows,
                )
            )
    return statistics
