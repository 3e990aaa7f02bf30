"""Card of a dataset: README.md with its figures, statistics by size, and where its labels come from."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.labels.statistics import QUANTITIES, WIDE, Maker, SizeStatistics, Spread, read_statistics
from mcvrp.storage.markdown import TASK, card_metadata, escaped, render, table
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.statistics import update_statistics
from mcvrp.tasks.support.pictures import BLUE, DPI, FONT, ORANGE, in_unit, png, style
from mcvrp.tasks.support.progress import duration
from mcvrp.tasks.support.text import unit_text

_ROWS = 40  # of the table by size; of more sizes a selection is shown
_SHOWN = 20
_PANELS = 6  # sizes with a histogram of their own, of a picture
_COLUMNS = 3
_WIDTH, _HEIGHT = 3.7, 3.0  # inches a panel
_HEADROOM = 1.3  # the axis over its highest bar, for the legend
_SPLITS = {"valid": "validation"}  # names of ours that the Hub has others for
_DECIMALS = {"cost": 2, "routes": 1, "runtime": 3}
FIGURES = {
    "cost": "Total distance of a label, in the unit of the city",
    "routes": "Routes of a label",
    "runtime": "Time that the solver took for a label",
}
COLUMNS = {  # of a label file
    "index": "i of instance (n, i); n is the folder's name",
    "ids": "customers: node numbers of the city in ascending order, without the depot (0)",
    "demands": "demand of each customer",
    "capacity": "capacity of a vehicle",
    "routes": "solution in canonical form: a list of node numbers per route, without the depot",
    "cost": "total travel cost in the city's unit, computed in float64 from the city",
    "source": "`solver`, `driven`, or `model` if our model found better routes",
    "solver": "solver of the routes",
    "version": "program and version of the solver",
    "seed": "random seed of the solver",
    "budget": "budget of the solver",
    "runtime": "runtime of the solver in seconds",
    "cpu": "processor on which the solver ran",
}


def write_card(store: Store, city: City, dataset: str, workers: int | None = None) -> None:
    """Write README.md, figures and statistics of ``dataset``, whose manifest has to be up to date.

    Only the sizes whose shards have changed are read.

    Raises
    ------
    McvrpError
        If a shard cannot be read.
    """
    before = read_statistics(store, dataset)
    statistics = update_statistics(store, dataset, workers)
    for quantity in QUANTITIES:
        path = figure_path(dataset, quantity)
        if statistics and (statistics != before or not store.exists(path)):
            store.put(path, spread_figure(statistics, quantity, city.unit))
    manifest = store.get_json(layout.manifest(dataset))
    text = card_text(dataset, city, manifest, statistics)
    store.put(layout.card(dataset), text.encode())


def figure_path(dataset: str, quantity: str) -> str:
    """Return where the card's picture of ``quantity`` lies."""
    return f"{layout.label_dir(dataset)}/figures/{quantity}.png"


def card_text(
    dataset: str, city: City, manifest: Mapping[str, Any], statistics: Sequence[SizeStatistics]
) -> str:
    """Return the card as Markdown; pictures are links relative to it."""
    spec, rows = manifest.get("spec") or {}, sum(size.rows for size in statistics)
    return _metadata(dataset, rows, spec.get("split", "")) + render(
        __package__,
        "dataset.md.j2",
        dataset=dataset,
        city=city,
        unit=unit_text(city.unit),
        spec=spec,
        asked=json.dumps(manifest.get("spec"), indent=2),
        fingerprint=manifest.get("fingerprint"),
        rows=rows,
        absent=sum(size.absent for size in statistics),
        sizes=sorted({size.n for size in (*statistics[:1], *statistics[-1:])}),
        figures=FIGURES,
        size_tables=size_tables(statistics) if statistics else "",
        makers=_makers(statistics),
        hours=sum(size.rows * size.runtime.mean for size in statistics) / 3600,
        columns=table(["Column", "Holds"], [[f"`{name}`", text] for name, text in COLUMNS.items()]),
    )


def _metadata(dataset: str, rows: int, split: str) -> str:
    """Return what the card says to the Hub and to `datasets.load_dataset`."""
    files = {"split": _SPLITS.get(split, split or "train"), "path": "data/*/*.parquet"}
    return card_metadata(
        {
            "pretty_name": dataset,
            "task_categories": [TASK],
            "size_categories": [_size_category(rows)],
            "configs": [{"config_name": "default", "data_files": [files]}],
        }
    )


def _size_category(rows: int) -> str:
    """Return the class of ``rows`` as the Hub writes it: "10K<n<100K"."""
    bounds = ["1K", "10K", "100K", "1M", "10M", "100M", "1B"]
    k = min(max(len(str(rows)) - 4, -1), len(bounds) - 2)
    return f"{bounds[k]}<n<{bounds[k + 1]}" if k >= 0 else "n<1K"


def size_tables(statistics: Sequence[SizeStatistics]) -> str:
    """Return two tables by size as Markdown, of many sizes a selection: labels with totals, solutions.

    One of all columns would be wider than a page of Prefect, which cuts it off.
    """
    shown = selection(statistics, _SHOWN) if len(statistics) > _ROWS else list(statistics)
    rows = [
        [
            f"{size.n}",
            f"{size.rows:,}",
            f"{size.absent:,}",
            f"{size.runtime.mean:.3g} s",
            f"{size.bytes / 1e6:,.1f}",
        ]
        for size in shown
    ]
    solutions = [
        [
            f"{size.n}",
            f"{size.cost.mean:,.3f} ± {size.cost.std:,.3f}",
            f"{size.cost.p10:,.2f} – {size.cost.p90:,.2f}",
            f"{size.routes.mean:.2f}",
            f"{size.routes.p10:.0f} – {size.routes.p90:.0f}",
        ]
        for size in shown
    ]
    total = f"{sum(size.rows for size in statistics):,}"
    absent = f"{sum(size.absent for size in statistics):,}"
    seconds = sum(size.rows * size.runtime.mean for size in statistics)
    megabytes = f"{sum(size.bytes for size in statistics) / 1e6:,.1f}"
    name = f"all {len(statistics)} sizes" if len(shown) < len(statistics) else "all"
    rows.append([name, total, absent, f"{duration(seconds)} in all", megabytes])
    labels = table(["Customers", "Labels", "Unsolved", "Solver time", "MB"], rows, right=True)
    header = ["Customers", "Distance", "80 %", "Routes", "80 %"]
    return f"{labels}\n\n{table(header, solutions, right=True)}"


def _makers(statistics: Sequence[SizeStatistics]) -> str:
    """Return who made how many labels as a Markdown list, which wraps: processors have long names."""
    labels: Counter[Maker] = Counter()
    for size in statistics:
        for maker in size.makers:
            labels[replace(maker, rows=0)] += maker.rows
    lines = []
    for maker, rows in labels.most_common():
        told = filter(None, (maker.source, maker.solver, maker.version, maker.budget, maker.cpu))
        lines.append(f"- **{rows:,}**: {escaped(', '.join(told))}")
    return "\n".join(lines)


def spread_figure(statistics: Sequence[SizeStatistics], quantity: str, unit: str = "") -> bytes:
    """Return histograms of ``quantity`` for some sizes and, where there are more, its course over all.

    Parameters
    ----------
    statistics
        One or more sizes, ascending.
    quantity
        "cost", "routes" or "runtime".
    unit
        Unit of the city's costs.
    """
    label = {
        "cost": f"Total distance{in_unit(unit)}",
        "routes": "Routes",
        "runtime": "Solver time (s)",
    }[quantity]
    shown = selection(statistics, _PANELS)
    rows = -(-len(shown) // _COLUMNS)
    columns = min(len(shown), _COLUMNS)
    courses = int(len(statistics) > _COLUMNS)
    figure = Figure(
        figsize=(_WIDTH * max(columns, 1 + courses), _HEIGHT * (rows + courses)),
        dpi=DPI,
        layout="constrained",
    )
    grid = figure.add_gridspec(rows + courses, columns)
    for k, size in enumerate(shown):
        axis = figure.add_subplot(grid[k // columns, k % columns])
        style(axis)
        _histogram(axis, getattr(size, quantity), _DECIMALS[quantity], wide=quantity == "runtime")
        axis.set_title(f"{size.n} customers", fontsize=FONT)
        axis.set_xlabel(label)
        if k % columns == 0:
            axis.set_ylabel("Labels")
    if courses:
        axis = figure.add_subplot(grid[rows, :])
        style(axis)
        _course(axis, statistics, quantity)
        axis.set_ylabel(label)
    return png(figure)


def selection(statistics: Sequence[SizeStatistics], most: int) -> list[SizeStatistics]:
    """Return at most ``most`` of the sizes, the first and the last among them, evenly apart."""
    count = min(most, len(statistics))
    places = np.unique(np.linspace(0, len(statistics) - 1, count).round().astype(int)).tolist()
    return [statistics[k] for k in places]


def _histogram(axis: Axes, spread: Spread, decimals: int, *, wide: bool) -> None:
    edges, counts = np.array(spread.edges), np.array(spread.counts)
    axis.stairs(counts, edges, fill=True, color=BLUE, alpha=0.25)
    axis.stairs(counts, edges, color=BLUE, linewidth=1.6)
    label = f"mean {spread.mean:.{decimals}f}"
    axis.axvline(spread.mean, 0, 1 / _HEADROOM, color=ORANGE, linewidth=2.2, label=label)
    axis.set_ylim(0, max(1, counts.max()) * _HEADROOM)
    if wide and spread.max > WIDE * spread.min > 0:
        axis.set_xscale("log")
    else:
        axis.xaxis.set_major_locator(MaxNLocator(5))
    axis.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    axis.yaxis.set_major_formatter("{x:,.0f}")
    axis.legend(loc="upper left", frameon=False, fontsize=FONT - 1)


def _course(axis: Axes, statistics: Sequence[SizeStatistics], quantity: str) -> None:
    n = [size.n for size in statistics]
    spreads: list[Spread] = [getattr(size, quantity) for size in statistics]
    marker = "o" if len(n) <= 40 else None
    low, high = ([getattr(spread, name) for spread in spreads] for name in ("p10", "p90"))
    axis.fill_between(n, low, high, color=BLUE, alpha=0.25, linewidth=0, label="middle 80 %")
    axis.plot(n, [spread.p50 for spread in spreads], color=BLUE, linewidth=2.2, marker=marker, label="median")
    axis.plot(
        n, [spread.mean for spread in spreads], color=ORANGE, linewidth=2.2, linestyle="--", label="mean"
    )
    axis.set_xlabel("Customers")
    axis.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axis.set_ylim(bottom=0)
    axis.legend(loc="upper left", ncols=3, frameon=False, fontsize=FONT - 1)
    axis.set_ylim(top=axis.get_ylim()[1] * 1.15)
