"""Figures of a benchmark's costs: distributions of two methods, and gaps of all methods."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from mcvrp.model.problem import gap
from mcvrp.tasks.report.metrics import MethodRun, method_name, paired
from mcvrp.tasks.support.pictures import BLUE, DPI, FONT, GREY, ORANGE, in_unit, panel_grid, style

_HEADROOM = 1.25  # height of the axis relative to its highest bar, for the legend
_BOXES_WIDTH, _LETTER_WIDTH = 6.6, 0.082  # inches: of the boxes, of a character of their labels
_LOOKS = ((BLUE, "-"), (ORANGE, "--"))  # baseline and other method


def paper_distances(
    results: pd.DataFrame,
    n: int,
    base: MethodRun,
    other: MethodRun,
    unit: str = "",
    published: tuple[float, float, float] | None = None,
) -> Figure:
    """Return the paper's figure of the cost distributions of two methods on ``n`` customers, with means.

    The title gives the mean relative difference (the paper's -1.05 % and 0.81 %). The methods need a solved
    instance in common. ``published`` are the figures of `published_distances`, shown beside ours.
    """
    costs = paired(results, n, base, other)
    figure = Figure(figsize=(8.6, 5.6 if published else 5.0), dpi=DPI, layout="constrained")
    axis = figure.add_subplot()
    style(axis)
    _histograms(axis, costs, [method_name(method) for method in (base, other)])
    title = f"mean relative difference {gap(costs[1], costs[0]).mean():+.2f} %"
    if published:
        title += f" (the paper: {published[2]:+.2f} %)"
        for mean, name, (colour, _) in zip(published[:2], (base, other), _LOOKS, strict=True):
            label = f"the paper's {method_name(name)}: mean {mean:.2f}"
            axis.axvline(mean, 0, 1 / _HEADROOM, color=colour, linestyle=":", linewidth=1.8, label=label)
    axis.set_title(f"{n} customers, {len(costs[0]):,} instances\n{title}", fontsize=FONT, loc="left")
    axis.set_xlabel(f"Total distance{in_unit(unit)}")
    axis.set_ylabel("Instances")
    figure.legend(loc="outside lower center", ncols=1 if published else 2, frameon=False, fontsize=FONT - 1)
    return figure


def _histograms(axis: Axes, costs: Sequence[NDArray[np.float64]], names: Sequence[str]) -> None:
    """Draw overlaid histograms with a line at each mean; names may be empty."""
    both = np.concatenate(costs)
    count = min(30, max(8, round(math.sqrt(len(both)))))
    bins = np.histogram_bin_edges(both, bins=count).tolist()
    for values, name, (colour, dash) in zip(costs, names, _LOOKS, strict=True):
        label = f"{name}: mean {values.mean():.2f}" if name else f"mean {values.mean():.2f}"
        axis.hist(values, bins, histtype="stepfilled", color=colour, alpha=0.25)
        axis.hist(values, bins, histtype="step", color=colour, linewidth=1.6)
        axis.axvline(
            values.mean(), 0, 1 / _HEADROOM, color=colour, linestyle=dash, linewidth=2.2, label=label
        )
    axis.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axis.set_ylim(top=axis.get_ylim()[1] * _HEADROOM)


def distance_distributions(
    results: pd.DataFrame, base: MethodRun, other: MethodRun, unit: str = ""
) -> Figure:
    """Return the cost distributions of two methods with their means, one panel per size.

    Sizes without a common solved instance are left out.
    """
    pairs = {n: paired(results, n, base, other) for n in sorted(results["n"].unique().tolist())}
    pairs = {n: pair for n, pair in pairs.items() if len(pair[0])}
    figure, axes = panel_grid(max(len(pairs), 1), columns=3, width=3.7, height=3.4)
    for axis, (n, costs) in zip(axes, pairs.items(), strict=False):
        _histograms(axis, costs, ["", ""])
        axis.set_title(f"{n} customers, {len(costs[0]):,} instances")
        axis.set_xlabel(f"Total distance{in_unit(unit)}")
        compact = {"handlelength": 1.3, "columnspacing": 0.9, "handletextpad": 0.4, "borderpad": 0.1}
        axis.legend(loc="upper left", ncols=2, frameon=False, fontsize=FONT - 1, **compact)
    for axis in axes[:: min(3, len(axes))]:
        axis.set_ylabel("Instances")
    lines = [Line2D([], [], color=c, linestyle=d, linewidth=2.2) for c, d in _LOOKS]
    names = [method_name(base), method_name(other)]
    figure.legend(lines, names, loc="outside lower center", ncols=2, frameon=False, fontsize=FONT)
    return figure


def gap_boxes(results: pd.DataFrame, base: MethodRun, others: Sequence[MethodRun]) -> Figure:
    """Return a box plot of each method's gaps to ``base`` over all sizes.

    Boxes span the quartiles, whiskers the 10th to 90th percentile; diamonds are means.
    """
    named = {}
    for other in others:
        theirs, reference = paired(results, None, other, base)
        if len(theirs):
            named[method_name(other)] = gap(theirs, reference)
    width = _BOXES_WIDTH + _LETTER_WIDTH * max(map(len, named), default=0)
    figure = Figure(figsize=(width, 1.5 + 0.5 * max(len(named), 1)), dpi=DPI, layout="constrained")
    axis = figure.add_subplot()
    style(axis)
    axis.axvline(0, color=GREY, linewidth=1)
    axis.boxplot(
        list(named.values()),
        orientation="horizontal",
        whis=(10, 90),
        widths=0.55,
        showfliers=False,
        showmeans=True,
        patch_artist=True,
        tick_labels=list(named),
        boxprops={"facecolor": "#CFE5F3", "edgecolor": BLUE},
        medianprops={"color": BLUE, "linewidth": 2},
        whiskerprops={"color": BLUE},
        capprops={"color": BLUE},
        meanprops={"marker": "D", "markerfacecolor": ORANGE, "markeredgecolor": "white", "markersize": 8},
    )
    for row, values in enumerate(named.values(), start=1):
        aligned: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "ha": "left", "va": "center"}
        axis.annotate(f"mean {values.mean():.2f} %", (1.01, row), color=ORANGE, fontsize=FONT - 1, **aligned)
    axis.set_ylim(len(named) + 0.6, 0.4)  # first method at the top
    axis.set_xlabel(f"Gap to {method_name(base)} (%)")
    return figure
