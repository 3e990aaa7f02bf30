"""The pictures of a dataset's card as PNG bytes: how cost, routes and solver time are spread, by size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from storage.statistics import WIDE, SizeStatistics, Spread
from tasks.figures import BLUE, DPI, FONT, ORANGE, in_unit, png, style

_PANELS = 6  # sizes with a histogram of their own
_COLUMNS = 3
_WIDTH, _HEIGHT = 3.7, 3.0  # inches a panel
_HEADROOM = 1.3  # the axis over its highest bar, for the legend
_DECIMALS = {"cost": 2, "routes": 1, "runtime": 3}


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
