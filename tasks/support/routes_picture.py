"""Figure of several solutions of an instance, with routes coloured in their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from mcvrp.model.problem import DEPOT, City, Instance, Solution, cost
from mcvrp.tasks.support.pictures import BLUE, GREEN, ORANGE, panel_grid, show_lengths
from mcvrp.tasks.support.text import length_text

# Counter-clockwise around the depot from blue over green and yellow to red, as in the paper's last appendix,
# in colours that are safe for colour-blind readers.
SWEEP = LinearSegmentedColormap.from_list("sweep", [BLUE, GREEN, "#D9B400", ORANGE])
_DASHES = ("-", (0, (5, 1.5)))  # adjacent routes have similar colours
_REST = "Addresses without an order"
_PALE = "#CCCCCC"
_INK, _SMALLEST = 4000.0, 1.2  # area in square points of all markers together, and of one


@dataclass(frozen=True)
class Panel:
    """A solution with its title."""

    title: str
    solution: Solution


def solutions(city: City, instance: Instance, panels: Sequence[Panel], reference: int = 0) -> Figure:
    """Return solutions of an instance side by side; gaps are relative to the panel ``reference``."""
    figure, axes = panel_grid(len(panels), columns=len(panels), width=5.0, height=6.0)
    base = cost(city, panels[reference].solution)
    for axis, panel in zip(axes, panels, strict=True):
        total = cost(city, panel.solution)
        gap = "" if panel is panels[reference] else f", gap {100 * (total - base) / base:+.2f} %"
        routes = len(panel.solution.routes)
        axis.set_title(f"{panel.title}\n{_what(city)} {length_text(total, city.unit)}{gap}, {routes} routes")
        _draw_routes(axis, city, instance, panel.solution)
    depot = Line2D([], [], linestyle="none", marker="s", markersize=9, color="black", label="Depot")
    rest = Line2D([], [], linestyle="none", marker="o", markersize=6, color=_PALE, label=_REST)
    figure.legend(handles=[depot, rest], loc="outside lower center", ncols=2, frameon=False)
    return figure


def _what(city: City) -> str:
    return "distance" if city.matrix is None else "cost"


def _draw_routes(axis: Axes, city: City, instance: Instance, solution: Solution) -> None:
    xy = city.xy
    thin = max(0.9, 2.4 - instance.n / 150)
    rest = np.setdiff1d(np.arange(1, city.customers + 1), instance.ids)
    size = max(_SMALLEST, min(8 * thin, _INK / max(len(rest), 1)))
    looks: dict[str, Any] = {"color": _PALE, "zorder": 1, "linewidths": 0, "rasterized": True}
    axis.scatter(xy[rest, 0], xy[rest, 1], s=size, **looks)
    for k, route in enumerate(solution.routes):
        colour = SWEEP(k / max(len(solution.routes) - 1, 1))
        path = [DEPOT, *route, DEPOT]
        axis.plot(*xy[path].T, color=colour, linestyle=_DASHES[k % 2], linewidth=thin, zorder=2)
        x, y = xy[list(route)].T
        axis.scatter(x, y, s=14 * thin, color=colour, zorder=3, edgecolors="white", linewidths=0.6 * thin / 2)
    depot: dict[str, Any] = {"marker": "s", "markersize": 11, "color": "black", "markeredgecolor": "white"}
    axis.plot(*xy[DEPOT], linestyle="none", zorder=4, **depot)
    axis.set_aspect("equal")
    axis.grid(False)
    unit = city.unit if city.matrix is None else ""  # the unit of a matrix is not that of the map
    show_lengths(axis, city.scale, unit)
