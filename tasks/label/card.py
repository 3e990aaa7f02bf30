"""Card of a dataset: README.md with figures, statistics by size, and the provenance of its labels."""

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
from mcvrp.storage.cities import save_nodes
from mcvrp.storage.labels.label_files import LabelFile
from mcvrp.storage.labels.statistics import QUANTITIES, WIDE, Maker, SizeStatistics, Spread, size_statistics
from mcvrp.storage.markdown import TASK, card_metadata, escaped, render, table
from mcvrp.storage.provenance import provenance_in, provenance_line
from mcvrp.storage.store.store import Store
from mcvrp.tasks.support.pictures import BLUE, DPI, FONT, ORANGE, in_unit, png, style
from mcvrp.tasks.support.progress import duration
from mcvrp.tasks.support.text import unit_text

_MOST_ROWS = 40  # of the table by size; of more sizes `_SELECTED` are shown
_SELECTED = 20
_PANELS = 6  # histograms per figure
_COLUMNS = 3
_WIDTH, _HEIGHT = 3.7, 3.0  # inches per panel
_HEADROOM = 1.3  # height of the axis relative to the highest bar: room for the legend
_SPLITS = {"valid": "validation"}  # splits that the Hugging Face Hub names otherwise
_DECIMALS = {"cost": 2, "routes": 1, "runtime": 3}
FIGURES = {
    "cost": "Total distance of a label, in the unit of the city",
    "routes": "Routes of a label",
    "runtime": "Solver time per label",
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


def write_card(
    store: Store, city: City, dataset: str, manifest: Mapping[str, Any], files: Sequence[LabelFile]
) -> None:
    """Write README.md, figures and nodes of ``dataset`` from its manifest and files, where they differ."""
    statistics = size_statistics(files)
    figures = {quantity: figure_path(dataset, quantity) for quantity in QUANTITIES if statistics}
    text = card_text(dataset, city, manifest, statistics).encode()
    current = store.find(layout.card(dataset)) == text
    for quantity, path in figures.items():
        if not (current and store.exists(path)):
            store.put(path, spread_figure(statistics, quantity, city.unit))
    if not (current and store.exists(layout.label_city(dataset))):
        save_nodes(store, layout.label_city(dataset), city)
    if not current:  # last: after a kill the next run finds that the others may be out of date
        store.put(layout.card(dataset), text)


def figure_path(dataset: str, quantity: str) -> str:
    return f"{layout.label_dir(dataset)}/figures/{quantity}.png"


def card_text(
    dataset: str, city: City, manifest: Mapping[str, Any], statistics: Sequence[SizeStatistics]
) -> str:
    """Return the card as Markdown; figures are relative links."""
    spec, rows = manifest.get("spec") or {}, sum(size.rows for size in statistics)
    return _metadata(dataset, rows, spec.get("split", "")) + render(
        __package__,
        "dataset.md.j2",
        dataset=dataset,
        city=city,
        unit=unit_text(city.unit),
        spec=spec,
        request=json.dumps(manifest.get("spec"), indent=2),
        fingerprint=manifest.get("fingerprint"),
        made=provenance_line(provenance_in(manifest), layout.label_dir(dataset)),
        split=split_name(spec.get("split", "")),
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
    """Return the metadata for the Hugging Face Hub and `datasets.load_dataset`."""
    files = {"split": split_name(split), "path": "data/*/*.parquet"}
    nodes = {"split": "nodes", "path": "city.parquet"}
    return card_metadata(
        {
            "pretty_name": dataset,
            "task_categories": [TASK],
            "size_categories": [_size_category(rows)],
            "configs": [
                {"config_name": "default", "data_files": [files]},
                {"config_name": "city", "data_files": [nodes]},
            ],
        }
    )


def split_name(split: str) -> str:
    """Return the name of ``split`` in `datasets.load_dataset`."""
    return _SPLITS.get(split, split or "train")


def _size_category(rows: int) -> str:
    """Return the size category of ``rows`` in the notation of the Hub: "10K<n<100K"."""
    bounds = ["1K", "10K", "100K", "1M", "10M", "100M", "1B"]
    k = min(max(len(str(rows)) - 4, -1), len(bounds) - 2)
    return f"{bounds[k]}<n<{bounds[k + 1]}" if k >= 0 else "n<1K"


def size_tables(statistics: Sequence[SizeStatistics]) -> str:
    """Return two Markdown tables by size, of a selection if there are many: labels with totals, solutions."""
    # A single table of all columns would be wider than a page of Prefect, which truncates it.
    shown = selection(statistics, _SELECTED) if len(statistics) > _MOST_ROWS else list(statistics)
    rows = [
        _label_row(f"{size.n}", size.rows, size.absent, f"{size.runtime.mean:.3g} s", size.bytes)
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
    name = f"all {len(statistics)} sizes" if len(shown) < len(statistics) else "all"
    total, absent, size_bytes = (
        sum(getattr(size, column) for size in statistics) for column in ("rows", "absent", "bytes")
    )
    seconds = sum(size.rows * size.runtime.mean for size in statistics)
    rows.append(_label_row(name, total, absent, f"{duration(seconds)} in all", size_bytes))
    labels = table(["Customers", "Labels", "Unsolved", "Solver time", "MB"], rows, right=True)
    header = ["Customers", "Distance", "80 %", "Routes", "80 %"]
    return f"{labels}\n\n{table(header, solutions, right=True)}"


def _label_row(name: str, rows: int, absent: int, time: str, size: int) -> list[str]:
    return [name, f"{rows:,}", f"{absent:,}", time, f"{size / 1e6:,.1f}"]


def _makers(statistics: Sequence[SizeStatistics]) -> str:
    """Return the number of labels by maker as a Markdown list, which wraps: processors have long names."""
    labels: Counter[Maker] = Counter()
    for size in statistics:
        for maker in size.makers:
            labels[replace(maker, rows=0)] += maker.rows
    lines = []
    for maker, rows in labels.most_common():
        properties = filter(None, (maker.source, maker.solver, maker.version, maker.budget, maker.cpu))
        lines.append(f"- **{rows:,}**: {escaped(', '.join(properties))}")
    return "\n".join(lines)


def spread_figure(statistics: Sequence[SizeStatistics], quantity: str, unit: str = "") -> bytes:
    """Return histograms of ``quantity`` for some sizes and, if there are more, its curve over all sizes."""
    labels = {"cost": f"Total distance{in_unit(unit)}", "routes": "Routes", "runtime": "Solver time (s)"}
    label = labels[quantity]
    shown = selection(statistics, _PANELS)
    rows = -(-len(shown) // _COLUMNS)
    columns, curves = min(len(shown), _COLUMNS), int(len(statistics) > _COLUMNS)
    size_inches = (_WIDTH * max(columns, 1 + curves), _HEIGHT * (rows + curves))
    figure = Figure(figsize=size_inches, dpi=DPI, layout="constrained")
    grid = figure.add_gridspec(rows + curves, columns)
    for k, size in enumerate(shown):
        axis = figure.add_subplot(grid[k // columns, k % columns])
        style(axis)
        _histogram(axis, getattr(size, quantity), _DECIMALS[quantity], wide=quantity == "runtime")
        axis.set_title(f"{size.n} customers", fontsize=FONT)
        axis.set_xlabel(label)
        if k % columns == 0:
            axis.set_ylabel("Labels")
    if curves:
        axis = figure.add_subplot(grid[rows, :])
        style(axis)
        _curve(axis, statistics, quantity)
        axis.set_ylabel(label)
    return png(figure)


def selection(statistics: Sequence[SizeStatistics], most: int) -> list[SizeStatistics]:
    """Return at most ``most`` of the sizes, evenly spaced, the first and the last included."""
    count = min(most, len(statistics))
    selected = np.unique(np.linspace(0, len(statistics) - 1, count).round().astype(int)).tolist()
    return [statistics[k] for k in selected]


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


def _curve(axis: Axes, statistics: Sequence[SizeStatistics], quantity: str) -> None:
    n = [size.n for size in statistics]
    spreads: list[Spread] = [getattr(size, quantity) for size in statistics]
    marker = "o" if len(n) <= 40 else None
    names = ("p10", "p90", "p50", "mean")
    low, high, median, mean = ([getattr(spread, name) for spread in spreads] for name in names)
    axis.fill_between(n, low, high, color=BLUE, alpha=0.25, linewidth=0, label="middle 80 %")
    axis.plot(n, median, color=BLUE, linewidth=2.2, marker=marker, label="median")
    axis.plot(n, mean, color=ORANGE, linewidth=2.2, linestyle="--", label="mean")
    axis.set_xlabel("Customers")
    axis.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axis.set_ylim(bottom=0)
    axis.legend(loc="upper left", ncols=3, frameon=False, fontsize=FONT - 1)
    axis.set_ylim(top=axis.get_ylim()[1] * 1.15)
