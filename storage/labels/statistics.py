"""Statistics of a dataset in the store: one row per size with costs, routes, runtime and makers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import TypeAdapter

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.labels.schema import MADE_BY
from mcvrp.storage.parquet import read_parquet, write_parquet
from mcvrp.storage.store.errors import UNREADABLE, StoreError
from mcvrp.storage.store.store import Store

QUANTITIES = ("cost", "routes", "runtime")
WIDE = 10.0  # ratio of largest to smallest value from which a histogram has a logarithmic axis
FIGURE_COLUMNS = ["cost", "routes", "runtime", *MADE_BY]  # of a label file, for `ShardFigures`
_KEPT = 512  # values of a quantity per shard: the rank of a percentile is off by at most 0.1 %
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
    """Values of a quantity over the ``rows`` of a shard: ascending, `_KEPT` of them if there are more.

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
class ShardFigures:
    """Samples of the quantities of a shard, and its makers: what the statistics of its size need of it."""

    samples: Mapping[str, Sample]
    makers: tuple[Maker, ...]

    @classmethod
    def of(cls, table: pa.Table) -> ShardFigures:
        """Return the figures of ``table``, which has at least `FIGURE_COLUMNS`."""
        import pyarrow.compute as pc  # imported here: commands that never get here start faster

        columns = {name: table[name] for name in QUANTITIES}
        columns["routes"] = pc.list_value_length(table["routes"])
        made = table.group_by(list(MADE_BY)).aggregate([([], "count_all")]).to_pylist()
        makers = tuple(Maker(**{by: row[by] for by in MADE_BY}, rows=row["count_all"]) for row in made)
        return cls({name: Sample.of(column.to_numpy()) for name, column in columns.items()}, makers)


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
    files: int  # shards
    bytes: int  # of the shards
    content: str  # hash of the checksums of the shards: if it is unchanged, so are all statistics
    cost: Spread  # total cost, in the city's unit
    routes: Spread  # number of routes
    runtime: Spread  # solver time in seconds
    makers: tuple[Maker, ...]


def write_statistics(store: Store, dataset: str, statistics: Sequence[SizeStatistics]) -> None:
    """Store ``statistics`` with the dataset: columns n, rows, ..., cost_mean, cost_std, ..., makers."""
    table = pa.Table.from_pylist([_row(size) for size in statistics], schema=_SCHEMA)
    write_parquet(store, layout.label_statistics(dataset), table, checksums=True)


def read_statistics(store: Store, dataset: str) -> list[SizeStatistics]:
    """Return the statistics stored with the dataset by size; [] if there are none, or they are corrupt."""
    path = layout.label_statistics(dataset)
    if not store.exists(path):
        return []
    try:
        rows = read_parquet(store, path).cast(_SCHEMA).to_pylist()
        return TypeAdapter(list[SizeStatistics]).validate_python([_nested(row) for row in rows])
    except StoreError:
        raise
    except (McvrpError, *UNREADABLE):
        return []  # derived data: they are computed again


def _row(size: SizeStatistics) -> dict[str, Any]:
    """Return ``size`` as a row, with one column per figure of a quantity."""
    row = asdict(size)
    for quantity in QUANTITIES:
        row |= {f"{quantity}_{name}": value for name, value in row.pop(quantity).items()}
    return row


def _nested(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the argument of `_row`, as plain values."""
    spreads = {
        quantity: {field.name: row[f"{quantity}_{field.name}"] for field in fields(Spread)}
        for quantity in QUANTITIES
    }
    return {name: row[name] for name in (*_PLAIN, "makers")} | spreads


_PLAIN = ("n", "rows", "absent", "files", "bytes", "content")
_COUNT = pa.uint64()
_TYPES = {"edges": pa.list_(pa.float64()), "counts": pa.list_(_COUNT)}
_MAKER = pa.struct([(f.name, _COUNT if f.name == "rows" else pa.string()) for f in fields(Maker)])
_SCHEMA = pa.schema(
    [(name, pa.string() if name == "content" else _COUNT) for name in _PLAIN]
    + [
        (f"{quantity}_{field.name}", _TYPES.get(field.name, pa.float64()))
        for quantity in QUANTITIES
        for field in fields(Spread)
    ]
    + [("makers", pa.list_(_MAKER))]
)
