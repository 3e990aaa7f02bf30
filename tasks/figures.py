"""The pictures of a run as PNG bytes: distances, gaps, one solution side by side, training curves.

Colours are those of Okabe and Ito, which people with any colour vision tell apart; fonts are
large enough to read at half size. Nothing here touches pyplot's global state.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, PercentFormatter

from model.problem import DEPOT, City, Instance, Solution, cost
from tasks.tables import gaps, paired

BLUE, ORANGE, GREEN, PINK = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ROUTE_COLOURS = (BLUE, "#E69F00", GREEN, PINK, "#56B4E9", ORANGE, "#000000", "#8A7A00")
_DASHES = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)))
_GREY = "#666666"
DPI = 150
FONT = 12
_REST = "Addresses without an order"
_HEADROOM = 1.25  # the axis over its highest bar, for the legend

Method = tuple[str, int]  # its label and its number of samples


@dataclass(frozen=True)
class Panel:
    """One solution of the side-by-side picture."""

    title: str
    solution: Solution


def distance_distributions(results: pd.DataFrame, base: Method, other: Method, unit: str = "") -> bytes:
    """Return the distributions of two methods' costs with their means, one panel a size, as PNG.

    Sizes that the two have no solved instance of in common are left out.
    """
    pairs = {n: paired(results, n, base, other) for n in sorted(results["n"].unique().tolist())}
    pairs = {n: pair for n, pair in pairs.items() if len(pair[0])}
    figure, axes = panel_grid(max(len(pairs), 1), columns=3, width=3.7, height=3.4)
    for axis, (n, costs) in zip(axes, pairs.items(), strict=False):
        both = np.concatenate(costs)
        count = min(30, max(8, round(math.sqrt(len(both)))))
        bins = np.histogram_bin_edges(both, bins=count).tolist()
        for values, colour, dash in zip(costs, (BLUE, ORANGE), ("-", "--"), strict=True):
            label = f"mean {values.mean():.2f}"
            axis.hist(values, bins, histtype="stepfilled", color=colour, alpha=0.25)
            axis.hist(values, bins, histtype="step", color=colour, linewidth=1.6)
            axis.axvline(
                values.mean(), 0, 1 / _HEADROOM, color=colour, linestyle=dash, linewidth=2.2, label=label
            )
        axis.set_title(f"{n} customers, {len(costs[0]):,} instances")
        axis.set_xlabel(f"Total distance{in_unit(unit)}")
        axis.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        axis.set_ylim(top=axis.get_ylim()[1] * _HEADROOM)
        axis.legend(loc="upper left", ncols=2, frameon=False, fontsize=FONT - 1)
    for axis in axes[:: min(3, len(axes))]:
        axis.set_ylabel("Instances")
    lines = [Line2D([], [], color=c, linestyle=d, linewidth=2.2) for c, d in ((BLUE, "-"), (ORANGE, "--"))]
    names = [method_name(base), method_name(other)]
    figure.legend(lines, names, loc="outside lower center", ncols=2, frameon=False, fontsize=FONT)
    return png(figure)


def gap_boxes(results: pd.DataFrame, base: Method, others: Sequence[Method]) -> bytes:
    """Return each method's gaps to ``base`` as boxes, all sizes together, as PNG.

    Boxes span the quartiles, whiskers the 10th to 90th percentile, a diamond marks the mean.
    """
    named = {}
    for other in others:
        theirs, reference = paired(results, None, other, base)
        if len(theirs):
            named[method_name(other)] = gaps(theirs, reference)
    figure = Figure(figsize=(8.6, 1.5 + 0.55 * max(len(named), 1)), dpi=DPI, layout="constrained")
    axis = figure.add_subplot()
    style(axis)
    axis.axvline(0, color=_GREY, linewidth=1)
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
        place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "ha": "left", "va": "center"}
        axis.annotate(f"mean {values.mean():.2f} %", (1.01, row), color=ORANGE, fontsize=FONT - 1, **place)
    axis.set_ylim(len(named) + 0.6, 0.4)  # the first method on top
    axis.set_xlabel(f"Gap to {method_name(base)} (%)")
    return png(figure)


def solutions(city: City, instance: Instance, panels: Sequence[Panel]) -> bytes:
    """Return solutions of one instance side by side as PNG; gaps are to the first panel's cost."""
    figure, axes = panel_grid(len(panels), columns=len(panels), width=5.0, height=6.0)
    reference = cost(city, panels[0].solution)
    for axis, panel in zip(axes, panels, strict=True):
        total = cost(city, panel.solution)
        gap = "" if panel is panels[0] else f", gap {100 * (total - reference) / reference:+.2f} %"
        routes = len(panel.solution.routes)
        axis.set_title(f"{panel.title}\ndistance {total:.3f}{gap}, {routes} routes")
        _draw_routes(axis, city, instance, panel.solution)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    return png(figure)


def training_curves(phases: Sequence[tuple[str, pd.DataFrame]]) -> bytes:
    """Return loss and accuracy of both token streams over all phases' steps, as PNG.

    Parameters
    ----------
    phases
        Name and metrics of each phase in order, with the columns step (from 1 in every
        phase), problem_loss, solution_loss, problem_accuracy, solution_accuracy (shares of
        1); what a phase does not train is NaN.
    """
    figure = Figure(figsize=(9, 6.4), dpi=DPI, layout="constrained")
    loss, accuracy = figure.subplots(2, 1, sharex=True)
    starts = _phase_starts(phases)
    streams = (
        ("problem", "Problem tokens (encoder)", BLUE),
        ("solution", "Solution tokens (decoder)", ORANGE),
    )
    for axis, quantity in ((loss, "loss"), (accuracy, "accuracy")):
        style(axis)
        for stream, label, colour in streams:
            curves = [frame[f"{stream}_{quantity}"].to_numpy(np.float64) for _, frame in phases]
            steps = [s + f["step"].to_numpy(np.float64) for (_, f), s in zip(phases, starts, strict=False)]
            for k, (x, y) in enumerate(zip(steps, curves, strict=True)):
                axis.plot(x, y, color=colour, alpha=0.25, linewidth=1)
                smooth = pd.Series(y).rolling(max(1, len(y) // 40), min_periods=1, center=True).mean()
                axis.plot(x, smooth, color=colour, linewidth=2.2, label=label if k == 0 else None)
        for boundary in starts[1:-1]:
            axis.axvline(boundary, color=_GREY, linestyle=":", linewidth=1.4)
    for (name, _), start, stop in zip(phases, starts, starts[1:], strict=False):
        if stop > start:
            place: dict[str, Any] = {
                "xycoords": ("data", "axes fraction"),
                "ha": "center",
                "va": "bottom",
                "color": _GREY,
            }
            loss.annotate(name, ((start + stop) / 2, 1.01), fontsize=FONT, **place)
    loss.set_yscale("log")
    loss.set_ylabel("Loss per token (nats)")
    accuracy.set_ylabel("Accuracy (%)")
    accuracy.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=""))
    accuracy.set_ylim(0, 1.03)
    accuracy.set_xlabel("Training step")
    handles, labels = accuracy.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=FONT - 1)
    return png(figure)


def method_name(method: Method) -> str:
    """Return a method as legends name it: "HGS", "HGS, best of 4", "FM-MCVRP (NS), best of 16"."""
    label, samples = method
    return label if samples == 1 else f"{label}, best of {samples}"


def _phase_starts(phases: Sequence[tuple[str, pd.DataFrame]]) -> list[int]:
    """Return the step at which each phase starts and, last, the step at which all ended."""
    lengths = [int(frame["step"].max()) if len(frame) else 0 for _, frame in phases]
    return [0, *np.cumsum(lengths).tolist()]


def _draw_routes(axis: Axes, city: City, instance: Instance, solution: Solution) -> None:
    xy = city.xy
    thin = max(0.9, 2.4 - instance.n / 150)
    rest = np.setdiff1d(np.arange(1, city.customers + 1), instance.ids)
    axis.scatter(xy[rest, 0], xy[rest, 1], s=8 * thin, color="#CCCCCC", zorder=1, linewidths=0, label=_REST)
    styles = cycle([(colour, dash) for dash in _DASHES for colour in ROUTE_COLOURS])
    for route, (colour, dash) in zip(solution.routes, styles, strict=False):
        path = [DEPOT, *route, DEPOT]
        axis.plot(*xy[path].T, color=colour, linestyle=dash, linewidth=thin, zorder=2)
        x, y = xy[list(route)].T
        axis.scatter(x, y, s=14 * thin, color=colour, zorder=3, edgecolors="white", linewidths=0.6)
    depot: dict[str, Any] = {"marker": "s", "markersize": 11, "color": "black", "markeredgecolor": "white"}
    axis.plot(*xy[DEPOT], linestyle="none", zorder=4, label="Depot", **depot)
    axis.set_aspect("equal")
    axis.grid(False)
    axis.set_xlabel(f"x{in_unit(city.unit)}")
    axis.set_ylabel(f"y{in_unit(city.unit)}")


def in_unit(unit: str) -> str:
    """Return the unit as it follows an axis label; "" for a city without one."""
    return "" if unit in ("", "unit") else f" ({unit})"


def panel_grid(count: int, columns: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """Return a figure of ``count`` styled axes, each ``width`` by ``height`` inches, and the axes."""
    columns = min(count, columns)
    rows = math.ceil(count / columns)
    figure = Figure(figsize=(width * columns, height * rows), dpi=DPI, layout="constrained")
    axes = [figure.add_subplot(rows, columns, k + 1) for k in range(count)]
    for axis in axes:
        style(axis)
    return figure, axes


def style(axis: Axes) -> None:
    """Give ``axis`` the looks that all pictures share."""
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    axis.grid(True, color="#E4E4E4", linewidth=0.8)
    axis.set_axisbelow(True)
    axis.tick_params(labelsize=FONT - 1)
    for text in (axis.xaxis.label, axis.yaxis.label, axis.title):
        text.set_fontsize(FONT)


def png(figure: Figure) -> bytes:
    """Return ``figure`` as PNG, the same bytes for the same figure."""
    FigureCanvasAgg(figure)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()
