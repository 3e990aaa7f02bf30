"""Figures: their colours, axes, sizes and files, and the picture of an instance's solutions.

The palette is that of Okabe and Ito, which is safe for colour-blind readers; fonts are readable at half size.
pyplot's global state is not used.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from mcvrp.model.problem import DEPOT, City, Instance, Solution, cost, gap
from mcvrp.tasks.support.text import counted, is_seconds, length_text, readable_unit

BLUE, ORANGE, GREEN, PINK = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
GREY = "#666666"
DPI = 150
_MIN_WIDTH = 8.4  # inches, for a legend of all methods
_PANEL = 5.0, 6.0  # width and height in inches of an instance's solution
FONT = 12
# Counter-clockwise around the depot from blue over green and yellow to red, as in the paper's last appendix,
# in colours that are safe for colour-blind readers.
SWEEP = LinearSegmentedColormap.from_list("sweep", [BLUE, GREEN, "#D9B400", ORANGE])
_DASHES = ("-", (0, (5, 1.5)))  # adjacent routes have similar colours
_REST = "Addresses without an order"
_PALE = "#CCCCCC"
_INK, _SMALLEST = 4000.0, 1.2  # area in square points of all markers together, and of one


def in_unit(unit: str) -> str:
    """Return the unit for an axis label; the unit of a synthetic city is the side of its square."""
    return "" if unit == "" else " (city's side = 1)" if unit == "unit" else f" ({unit})"


def show_lengths(axis: Axes, largest: float, unit: str, names: tuple[str, str] = ("x", "y")) -> None:
    """Label the axes of a map whose coordinates are in ``unit``; large values in metres become kilometres."""
    for side, title in zip((axis.xaxis, axis.yaxis), names, strict=True):
        factor, name = readable_unit(unit, largest)
        if factor != 1:
            side.set_major_formatter(FuncFormatter(lambda value, _, factor=factor: f"{value * factor:g}"))
        side.set_label_text(f"{title}{in_unit(name)}")


def style(axis: Axes) -> None:
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    axis.grid(True, color="#E4E4E4", linewidth=0.8)
    axis.set_axisbelow(True)
    axis.tick_params(labelsize=FONT - 1)
    for text in (axis.xaxis.label, axis.yaxis.label, axis.title):
        text.set_fontsize(FONT)


def png(figure: Figure) -> bytes:
    """Return ``figure`` as PNG, byte-identical for equal figures."""
    buffer = io.BytesIO()
    # `savefig` would compute the layout and draw the figure twice
    FigureCanvasAgg(figure).print_png(buffer, metadata={"Software": None})
    return buffer.getvalue()


def solutions(
    city: City,
    instance: Instance,
    panels: Sequence[tuple[str, Solution]],
    reference: int = 0,
) -> Figure:
    """Return titled solutions of an instance side by side; gaps are relative to the panel ``reference``."""
    size = max(_PANEL[0] * len(panels), _MIN_WIDTH), _PANEL[1]
    figure = Figure(figsize=size, dpi=DPI, layout="constrained")
    axes = [figure.add_subplot(1, len(panels), k) for k in range(1, len(panels) + 1)]
    totals = [cost(city, solution) for _, solution in panels]
    base, what = totals[reference], "distance" if city.matrix is None else "cost"
    what = "travel time" if is_seconds(city.unit) else what
    for k, (axis, (title, solution), total) in enumerate(zip(axes, panels, totals, strict=True)):
        beyond = "" if k == reference or not base else f", gap {gap(total, base):+.2f} %"
        routes = len(solution.routes)
        style(axis)
        axis.set_title(f"{title}\n{what} {length_text(total, city.unit)}{beyond}, {counted(routes, 'route')}")
        _draw_routes(axis, city, instance, solution)
    depot = Line2D([], [], linestyle="none", marker="s", markersize=9, color="black", label="Depot")
    rest = Line2D([], [], linestyle="none", marker="o", markersize=6, color=_PALE, label=_REST)
    figure.legend(handles=[depot, rest], loc="outside lower center", ncols=2, frameon=False)
    return figure


def _draw_routes(axis: Axes, city: City, instance: Instance, solution: Solution) -> None:
    xy = city.xy
    thin = max(0.9, 2.4 - instance.n / 150)
    rest = np.setdiff1d(np.arange(1, city.customers + 1), instance.ids)
    size = max(_SMALLEST, min(8 * thin, _INK / max(len(rest), 1)))
    looks: dict[str, Any] = {"color": _PALE, "zorder": 1, "linewidths": 0}
    axis.scatter(xy[rest, 0], xy[rest, 1], s=size, **looks)
    for k, route in enumerate(solution.routes):
        colour = SWEEP(k / max(len(solution.routes) - 1, 1))
        line = xy[[DEPOT, *route, DEPOT]]
        axis.plot(*line.T, color=colour, linestyle=_DASHES[k % 2], linewidth=thin, zorder=2)
        x, y = xy[list(route)].T
        axis.scatter(x, y, s=14 * thin, color=colour, zorder=3, edgecolors="white", linewidths=0.6 * thin / 2)
    depot: dict[str, Any] = {"marker": "s", "markersize": 11, "color": "black", "markeredgecolor": "white"}
    axis.plot(*xy[DEPOT], linestyle="none", zorder=4, **depot)
    axis.set_aspect("equal")
    axis.grid(False)
    # the unit of a matrix is not that of the map
    show_lengths(axis, city.scale, city.unit if city.matrix is None else "")
