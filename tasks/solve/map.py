"""Maps of a routed day, one colour per route: PNG, and a self-contained page to zoom and highlight routes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from mcvrp.model.problem import DEPOT
from mcvrp.storage import markdown
from mcvrp.tasks.city.card import coordinate_unit
from mcvrp.tasks.solve.day import Solved
from mcvrp.tasks.solve.readme import Stop
from mcvrp.tasks.support.pictures import BLUE, FONT, GREEN, ORANGE, PINK, png, show_lengths, style
from mcvrp.tasks.support.text import length_text

# Neighbouring routes have consecutive numbers: consecutive colours are far apart.
_COLOURS = (BLUE, ORANGE, GREEN, PINK, "#56B4E9", "#8C5A00", "#000000")
_DASHES: tuple[Any, ...] = ("-", (0, (4, 2.5)), (0, (1.2, 1.5)))
_PALE, _NAMED, _WITH_DEMAND = "#D4D4D4", 30, 60  # maximum number of customers with names, with demands
_LEGEND, _LARGE = 40, 18  # maximum number of routes in the legend, and in large type
_DPI = 120  # small enough for Prefect to show the picture inline
_SIDE, _MARGIN = 1000.0, 30.0  # of the page's drawing; the browser scales it
_NAME = 14  # characters of a customer's name


def colour(k: int) -> str:
    """Return the colour of the ``k``-th route, counted from 0."""
    return _COLOURS[k % len(_COLOURS)]


def route_map(solved: Solved) -> bytes:
    """Return the map as PNG."""
    city, instance = solved.planned.city, solved.planned.day.instance
    figure = Figure(figsize=(9.6, 7.2), dpi=_DPI, layout="constrained")
    axis, beside = figure.subplots(1, 2, width_ratios=[4, 1])
    style(axis)
    beside.set_axis_off()
    rest = np.setdiff1d(np.arange(1, city.customers + 1), instance.ids)
    looks: dict[str, Any] = {"color": _PALE, "linewidths": 0, "rasterized": True, "zorder": 1}
    axis.scatter(city.xy[rest, 0], city.xy[rest, 1], s=max(1.5, min(16, 4000 / max(len(rest), 1))), **looks)
    handles = [_draw(axis, solved, k) for k in range(len(solved.solution.routes))]
    _label(axis, solved)
    depot: dict[str, Any] = {"marker": "s", "color": "black", "markeredgecolor": "white", "linestyle": "none"}
    axis.plot(*city.xy[DEPOT], markersize=13, zorder=5, **depot)
    axis.set_aspect("equal", adjustable="datalim")
    axis.margins(0.06)
    addresses = solved.planned.addresses
    names = ("East", "North") if addresses.projection else ("x", "y")
    show_lengths(axis, float(np.ptp(city.xy, axis=0).max()), coordinate_unit(city, addresses), names)
    summary = solved.summary
    axis.set_title(
        f"{_plain(summary.orders)}: {summary.customers:,} customers, {summary.routes:,} routes, "
        f"cost {length_text(summary.cost, city.unit)}"
    )
    shown = handles if len(handles) <= _LEGEND else []
    others = [Line2D([], [], label=f"Depot ({_plain(addresses.ids[DEPOT][:_NAME])})", **depot)]
    if len(rest):
        grey: dict[str, Any] = {"marker": "o", "color": _PALE, "linestyle": "none"}
        others.append(Line2D([], [], label="No order today", **grey))
    fontsize = FONT - 3 if len(shown) <= _LARGE else FONT - 5
    beside.legend(handles=[*shown, *others], loc="upper left", frameon=False, fontsize=fontsize)
    return png(figure)


def _draw(axis: Axes, solved: Solved, k: int) -> Line2D:
    city, instance = solved.planned.city, solved.planned.day.instance
    route = list(solved.solution.routes[k])
    xy, thin = city.xy, max(0.9, 2.4 - instance.n / 200)
    dash = _DASHES[k // len(_COLOURS) % len(_DASHES)]
    axis.plot(*xy[[DEPOT, *route, DEPOT]].T, color=colour(k), linestyle=dash, linewidth=thin, zorder=2)
    looks: dict[str, Any] = {"edgecolors": "white", "linewidths": 0.5, "zorder": 3}
    axis.scatter(xy[route, 0], xy[route, 1], s=18 * thin, color=colour(k), **looks)
    load = int(instance.demands[np.searchsorted(instance.ids, route)].sum())
    label = f"{k + 1}: {len(route)} stops, {load}/{instance.capacity}"
    return Line2D([], [], color=colour(k), linestyle=dash, linewidth=2.4, label=label)


def _label(axis: Axes, solved: Solved) -> None:
    """Label each route at its farthest customer from the depot, and customers with their demand."""
    city, instance, names = solved.planned.city, solved.planned.day.instance, solved.planned.addresses.ids
    boxed: dict[str, Any] = {"boxstyle": "round,pad=0.2", "linewidth": 0}
    crowded: set[int] = set()  # customers with the route's number on their right
    for k, route in enumerate(solved.solution.routes):
        delta = city.xy[list(route)] - city.xy[DEPOT]
        far = int(np.hypot(*delta.T).argmax())
        aligned: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "va": "center", "zorder": 6}
        shift = delta[far] / (float(np.hypot(*delta[far])) or 1.0) * 15
        if shift[0] > 0:
            crowded.add(route[far])
        axis.annotate(
            str(k + 1),
            tuple(city.xy[route[far]]),
            tuple(shift.tolist()),
            color="white",
            fontsize=FONT - 2,
            fontweight="bold",
            bbox=boxed | {"facecolor": colour(k)},
            **aligned,
        )
    if instance.n > _WITH_DEMAND:
        return
    for node, demand in zip(instance.ids.tolist(), instance.demands.tolist(), strict=True):
        name = names[node] if len(names[node]) <= _NAME else f"{names[node][: _NAME - 1]}…"
        text = f"{_plain(name)} ({demand})" if instance.n <= _NAMED else str(demand)
        side: dict[str, Any] = {"ha": "right" if node in crowded else "left", "textcoords": "offset points"}
        shift = (-5 if node in crowded else 5, 4)
        axis.annotate(text, tuple(city.xy[node]), shift, fontsize=FONT - 4, zorder=4, **side)


def _plain(text: str) -> str:
    """Return ``text`` escaped so that Matplotlib does not typeset it as mathematics."""
    return text.replace("$", r"\$")


def map_page(solved: Solved, routes: Sequence[Sequence[Stop]]) -> str:
    """Return the page; ``routes`` are the stops of each route, including the depot."""
    planned, summary = solved.planned, solved.summary
    city, instance = planned.city, planned.day.instance
    points = _to_page(city.xy)
    rest = np.setdiff1d(np.arange(1, city.customers + 1), instance.ids)
    drawn = [
        {
            "number": stops[0].route,
            "colour": colour(k),
            "line": "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points[[DEPOT, *nodes, DEPOT]]),
            "load": stops[-1].load_after,
            "share": round(100 * stops[-1].load_after / instance.capacity),
            "cost": length_text(stops[-1].cumulative_cost, city.unit),
            "stops": [
                {
                    "at": _dot(points[node]),
                    "customer": stop.customer,
                    "demand": stop.demand,
                    "stop": stop.stop,
                    "cost": length_text(stop.cumulative_cost, city.unit),
                }
                for node, stop in zip(nodes, stops[1:-1], strict=True)
            ],
        }
        for k, (nodes, stops) in enumerate(zip(solved.solution.routes, routes, strict=True))
    ]
    return markdown.render(
        "mcvrp.tasks.solve",
        "map.html.j2",
        orders=summary.orders,
        city=summary.city,
        customers=summary.customers,
        cost=length_text(summary.cost, city.unit),
        capacity=instance.capacity,
        depot={"at": _dot(points[DEPOT]), "name": planned.addresses.ids[DEPOT]},
        rest="".join(map(_dot, points[rest])),
        routes=drawn,
        side=_SIDE + 2 * _MARGIN,
    )


def _to_page(xy: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``xy`` ``(N, 2)`` in the page's coordinates: equal scale in both directions, north up."""
    low, spread = xy.min(axis=0), float(np.ptp(xy, axis=0).max()) or 1.0
    scaled = (xy - low) * (_SIDE / spread)
    return np.column_stack([_MARGIN + scaled[:, 0], _MARGIN + scaled[:, 1].max() - scaled[:, 1]])


def _dot(point: NDArray[np.float64]) -> str:
    """Return a dot as a path of zero length, so that its size does not change with the zoom."""
    return f"M{point[0]:.1f} {point[1]:.1f}h0"
