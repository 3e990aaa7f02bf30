"""The picture of a city: its addresses, and those that came later."""

from __future__ import annotations

from matplotlib.figure import Figure

from model.problem import DEPOT, City
from tasks.figures import BLUE, DPI, ORANGE, show_lengths, style

_INK, _SMALLEST, _LARGEST = 6000.0, 1.0, 16.0  # square points of all addresses together, and of one


def city_map(city: City, unit: str, *, on_earth: bool = False) -> Figure:
    """Return the addresses of ``city`` on a map whose axes are in ``unit``, that of its coordinates.

    With ``on_earth``, they go to the east and to the north.
    """
    figure = Figure(figsize=(7, 7), dpi=DPI, layout="constrained")
    axis = figure.add_subplot()
    style(axis)
    size = min(_LARGEST, max(_SMALLEST, _INK / city.customers))
    first = city.founders + 1
    groups = (("Addresses", city.xy[1:first], BLUE), ("Added later", city.xy[first:], ORANGE))
    for label, xy, colour in groups:
        if len(xy):
            axis.scatter(
                xy[:, 0], xy[:, 1], s=size, color=colour, linewidths=0, label=f"{label} ({len(xy):,})"
            )
    axis.plot(*city.xy[DEPOT], "s", color="black", markeredgecolor="white", markersize=11, label="Depot")
    axis.set_aspect("equal")
    show_lengths(axis, city.scale, unit, ("East", "North") if on_earth else ("x", "y"))
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return figure
