"""The picture of a city: its addresses, and those that came later."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from model.problem import DEPOT, City
from tasks.figures import BLUE, DPI, ORANGE, in_unit, style
from tasks.lengths import readable_unit

_INK, _SMALLEST, _LARGEST = 6000.0, 1.0, 16.0  # square points of all addresses together, and of one


def city_map(city: City, unit: str) -> Figure:
    """Return the addresses of ``city`` on a map whose axes are in ``unit``, that of its coordinates."""
    figure = Figure(figsize=(7, 7), dpi=DPI, layout="constrained")
    axis = figure.add_subplot()
    style(axis)
    size = min(_LARGEST, max(_SMALLEST, _INK / city.customers))
    first = city.founders + 1
    groups = (("Addresses", city.xy[1:first], BLUE), ("Added later", city.xy[first:], ORANGE))
    for label, xy, colour in groups:
        if len(xy):
            axis.scatter(*xy.T, s=size, color=colour, linewidths=0, label=f"{label} ({len(xy):,})")
    axis.plot(*city.xy[DEPOT], "s", color="black", markeredgecolor="white", markersize=11, label="Depot")
    axis.set_aspect("equal")
    factor, name = readable_unit(unit, float(np.ptp(city.xy, axis=0).max()))
    if factor != 1:
        for side in (axis.xaxis, axis.yaxis):
            side.set_major_formatter(FuncFormatter(lambda value, _: f"{value * factor:g}"))
    axis.set_xlabel(f"East{in_unit(name)}" if unit != "unit" else f"x{in_unit(name)}")
    axis.set_ylabel(f"North{in_unit(name)}" if unit != "unit" else f"y{in_unit(name)}")
    figure.legend(loc="outside lower center", ncols=3, frameon=False, markerscale=1.5)
    return figure
