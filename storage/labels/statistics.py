"""Statistics of labels: figures of a file, kept in its footer, and from these the statistics of each size."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mcvrp.storage.labels.schema import MADE_BY

if TYPE_CHECKING:
    from mcvrp.storage.labels.label_files import LabelFile

QUANTITIES = ("cost", "routes", "runtime")
WIDE = 10.0  # ratio of largest to smallest value from which a histogram has a logarithmic axis
_KEPT = 512  # values of a quantity per file: the rank of a percentile is off by at most 0.1 %
_FEWEST_BINS, _MOST_BINS = 8, 40


@dataclass(frozen=True)
class Spread:
    """Spread of a quantity over the labels of a size: moments, percentiles, histogram."""

    mean: float
    std: float
    min: float
    p10: float
    p50: float
    p90: float
    max: float
    edges: tuple[float, ...]
    counts: tuple[int, ...]

    @classmethod
    def of(cls, values: NDArray[np.number]) -> Spread:
        """Return the spread of ``values``, at least one.

        Integers get bins of their own; values that span more than a factor of ten get bins of equal ratio.
        """
        x = values.astype(np.float64)
        count = min(_MOST_BINS, max(_FEWEST_BINS, round(len(x) ** 0.5)))
        bins: int | NDArray[np.float64] = count
        if np.issubdtype(values.dtype, np.integer):
            step = int(np.ptp(x)) // _MOST_BINS + 1
            bins = np.arange(x.min() - 0.5, x.max() + step + 0.5, step)
        elif x.max() > WIDE * x.min() > 0:
            bins = np.geomspace(x.min(), x.max(), count + 1)
            x = x.clip(bins[0], bins[-1])  # rounding may have left them outside
        counts, edges = np.histogram(x, bins)
        mean, std = float(x.mean()), float(x.std(ddof=1)) if len(x) > 1 else 0.0
        low, p10, p50, p90, high = np.percentile(x, [0, 10, 50, 90, 100]).tolist()
        return cls(mean, std, low, p10, p50, p90, high, tuple(edges.tolist()), tuple(counts.tolist()))


@dataclass(frozen=True)
class Maker:
    """Solver, budget and processor of some of the labels, and the number of these labels."""

    source: str
    solver: str
    version: str
    budget: str
    cpu: str
    rows: int


@dataclass(frozen=True, eq=False)
class Sample:
    """Values of a quantity over the ``rows`` of a file: ascending, `_KEPT` of them if there are more.

    ``mean`` and ``squares``, the sum of squared deviations from it, are those of all.
    """

    values: NDArray[np.number]
    rows: int
    mean: float
    squares: float

    @classmethod
    def of(cls, values: NDArray[np.number]) -> Sample:
        """Return the sample of ``values``, ``(rows,)``."""
        ordered, mean = np.sort(values), float(values.mean()) if len(values) else 0.0
        kept = np.linspace(0, len(ordered) - 1, min(len(ordered), _KEPT)).round().astype(np.int64)
        return cls(ordered[kept], len(ordered), mean, float(((values - mean) ** 2).sum()))

    def all_values(self) -> NDArray[np.number]:
        """Return one value per row, ``(rows,)``; of more than `_KEPT` rows the kept ones several times."""
        nearest = np.linspace(0, len(self.values) - 1, self.rows).round().astype(np.int64)
        return self.values[nearest]


@dataclass(frozen=True, eq=False)
class FileFigures:
    """Samples of the quantities of a file, and its makers: what the statistics of its size need of it."""

    samples: Mapping[str, Sample]
    makers: tuple[Maker, ...]

    @classmethod
    def of(cls, table: pa.Table) -> FileFigures:
        """Return the figures of ``table``, labels of one size."""
        import pyarrow.compute as pc  # imported here: commands that never get here start faster

        columns = {name: table[name] for name in QUANTITIES}
        columns["routes"] = pc.list_value_length(table["routes"])
        made = table.group_by(list(MADE_BY)).aggregate([([], "count_all")]).to_pylist()
        makers = tuple(Maker(**{by: row[by] for by in MADE_BY}, rows=row["count_all"]) for row in made)
        return cls({name: Sample.of(column.to_numpy()) for name, column in columns.items()}, makers)

    def encode(self) -> str:
        """Return the figures as JSON."""
        samples = {
            name: {"values": sample.values.tolist(), "mean": sample.mean, "squares": sample.squares}
            for name, sample in self.samples.items()
        }
        rows = next(iter(self.samples.values())).rows
        makers = [asdict(maker) for maker in self.makers]
        return json.dumps({"rows": rows, "samples": samples, "makers": makers}, separators=(",", ":"))

    @classmethod
    def decode(cls, text: str) -> FileFigures:
        """Return the figures in ``text``, the result of `encode`."""
        stored = json.loads(text)
        samples = {
            name: Sample(np.array(sample["values"]), stored["rows"], sample["mean"], sample["squares"])
            for name, sample in stored["samples"].items()
        }
        return cls(samples, tuple(Maker(**maker) for maker in stored["makers"]))


def merged_spread(samples: Sequence[Sample]) -> Spread:
    """Return the spread over all rows of ``samples``, at least one row."""
    spread = Spread.of(np.concatenate([sample.all_values() for sample in samples]))
    rows = sum(sample.rows for sample in samples)
    if rows == sum(len(sample.values) for sample in samples):
        return spread  # of all values
    mean = sum(sample.rows * sample.mean for sample in samples) / rows
    squares = sum(sample.squares + sample.rows * (sample.mean - mean) ** 2 for sample in samples)
    return replace(spread, mean=mean, std=(squares / (rows - 1)) ** 0.5)


@dataclass(frozen=True)
class SizeStatistics:
    n: int
    rows: int
    absent: int  # instances without label
    bytes: int  # of the files
    cost: Spread  # total cost, in the city's unit
    routes: Spread  # number of routes
    runtime: Spread  # solver time in seconds
    makers: tuple[Maker, ...]


def size_statistics(files: Iterable[LabelFile]) -> list[SizeStatistics]:
    """Return the statistics of each size with labels from the footers of all ``files``, by size and row."""
    statistics = []
    for n, of_size in groupby(files, key=lambda file: file.footer.n):
        stored = list(of_size)
        figures = [FileFigures.decode(file.footer.figures) for file in stored if file.footer.rows]
        if not figures:
            continue
        makers = Counter[Maker]()
        for maker in (maker for each in figures for maker in each.makers):
            makers[replace(maker, rows=0)] += maker.rows
        statistics.append(
            SizeStatistics(
                n=n,
                rows=sum(file.footer.rows for file in stored),
                absent=sum(len(file.footer.absent) for file in stored),
                bytes=sum(file.bytes for file in stored),
                **{name: merged_spread([each.samples[name] for each in figures]) for name in QUANTITIES},
                makers=tuple(replace(maker, rows=rows) for maker, rows in makers.most_common()),
            )
        )
    return statistics
