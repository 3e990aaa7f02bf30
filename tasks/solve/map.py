"""Maps of a routed day, one colour per route: PNG, and a self-contained page to zoom and highlight routes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from mcvrp.tasks.solve.stops import Stop, at_stop, count_text, further_columns, measure, shortened
from mcvrp.tasks.support.pictures import BLUE, FONT, GREEN, GREY, ORANGE, PINK, png, show_lengths, style
from mcvrp.tasks.support.text import length_text, readable_unit, unit_text

# Neighbouring routes have consecutive numbers: consecutive colours are far apart.
_COLOURS = (BLUE, ORANGE, GREEN, PINK, "#56B4E9", "#8C5A00", "#000000")
_DASHES: tuple[Any, ...] = ("-", (0, (4, 2.5)), (0, (1.2, 1.5)))
_PALE, _NAMED, _WITH_DEMAND = "#D4D4D4", 30, 40  # maximum number of customers with names, with demands
_NUMBERED = 120  # maximum number of customers with their stop's number on the PNG
_LEGEND, _LARGE = 40, 18  # maximum number of routes in the legend, and in large type
_DPI = 120  # small enough for Prefect to show the picture inline
_SIDE, _MARGIN = 1000.0, 30.0  # of the page's drawing; the browser scales it
_NAME = 14  # characters of a customer's name
_FURTHER, _TEXT = 8, 120  # columns of addresses and orders in a list, and characters of a text


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
    pale: dict[str, Any] = {"color": _PALE, "linewidths": 0, "rasterized": True, "zorder": 1}
    axis.scatter(city.xy[rest, 0], city.xy[rest, 1], s=max(1.5, min(16, 4000 / max(len(rest), 1))), **pale)
    handles = [_draw(axis, solved, k) for k in range(len(solved.solution.routes))]
    _label(axis, solved)
    depot: dict[str, Any] = {"marker": "s", "color": "black", "markeredgecolor": "white", "linestyle": "none"}
    addresses, unit = solved.planned.addresses, coordinate_unit(city, solved.planned.addresses)
    name = f"Depot ({_plain(addresses.ids[DEPOT][:_NAME])})"
    axis.plot(*city.xy[DEPOT], markersize=9, zorder=5, label=name, **depot)
    axis.set_aspect("equal", adjustable="datalim")
    axis.margins(0.06)
    names = ("East", "North") if addresses.projection else ("x", "y")
    show_lengths(axis, _spread(city.xy), unit, names)
    if unit:
        _scale_bar(axis, _spread(city.xy), unit)
    summary = solved.summary
    axis.set_title(
        f"{_plain(summary.orders)}: {summary.customers:,} customers, {summary.routes:,} routes,\n"
        f"{measure(city)} {length_text(summary.cost, city.unit)}"
    )
    if len(rest):
        axis.plot([], [], "o", color=_PALE, label="No order today")
    _legend(beside, handles, axis.get_legend_handles_labels()[0], instance.n)
    for text in axis.texts:  # all within the axes: their extents cost half of the time
        text.set_in_layout(False)
    return png(figure)


def _legend(beside: Axes, routes: list[Line2D], others: list[Any], customers: int) -> None:
    """Draw the legend: routes, ``others``, and what numbers and arrows on the map mean."""
    meanings = {"s": "Number in a box: route", ">": "Arrow: first leg"}
    if customers <= _NUMBERED:
        meanings["o"] = "Number in a dot: order\nof driving"
    if customers <= _WITH_DEMAND:
        meanings[""] = "Customer (demand)" if customers <= _NAMED else "Number beside: demand"
    looks: dict[str, Any] = {"linestyle": "none", "color": GREY, "markersize": 9}
    keys = [Line2D([], [], marker=marker, label=text, **looks) for marker, text in meanings.items()]
    shown = routes if len(routes) <= _LEGEND else []
    size, apart = (FONT - 3, 0.5) if len(shown) <= _LARGE else (FONT - 5, 0.3)
    beside.legend(
        handles=[*shown, *others, *keys],
        title="Route: stops, load/capacity" if shown else None,
        title_fontsize=size,
        fontsize=size,
        labelspacing=apart,
        alignment="left",
        loc="upper left",
        frameon=False,
    )


def _scale_bar(axis: Axes, spread: float, unit: str) -> None:
    """Draw a bar of 1, 2 or 5 times a power of ten, at most a fifth of the city's width, below the map."""
    power = 10.0 ** np.floor(np.log10(spread / 5))
    length = max(digit * power for digit in (1, 2, 5) if digit * power <= spread / 5)
    text = f"{length:g} sides" if unit == "unit" else length_text(length, unit)
    left, low = axis.get_xlim()[0], axis.get_ylim()[0]
    axis.plot([left, left + length], [low, low], color="black", linewidth=2.5, zorder=6)
    axis.annotate(
        text, (left + length / 2, low), (0, 4), textcoords="offset points", ha="center", fontsize=FONT - 3
    )


def _draw(axis: Axes, solved: Solved, k: int) -> Line2D:
    city, instance = solved.planned.city, solved.planned.day.instance
    route = list(solved.solution.routes[k])
    xy, thin = city.xy, max(0.9, 2.4 - instance.n / 200)
    dash = _DASHES[k // len(_COLOURS) % len(_DASHES)]
    axis.plot(*xy[[DEPOT, *route, DEPOT]].T, color=colour(k), linestyle=dash, linewidth=thin, zorder=2)
    numbered = instance.n <= _NUMBERED
    looks: dict[str, Any] = {"edgecolors": "white", "linewidths": 0.5, "zorder": 3}
    axis.scatter(xy[route, 0], xy[route, 1], s=95 if numbered else 18 * thin, color=colour(k), **looks)
    if numbered:
        centred: dict[str, Any] = {"ha": "center", "va": "center_baseline", "color": "white", "zorder": 4}
        for place, numbers in _by_place(route, xy).items():
            axis.annotate(numbers, place, fontsize=FONT - 5 if len(numbers) < 3 else FONT - 7, **centred)
    if arrow := _arrow(xy[[DEPOT, *route]]):
        (x, y), (east, north) = arrow[0], arrow[1] / 20
        head: dict[str, Any] = {"arrowstyle": "-|>", "color": colour(k), "linewidth": 0, "mutation_scale": 16}
        axis.annotate("", (x + east, y + north), (x - east, y - north), arrowprops=head, zorder=3)
    load = int(instance.demands[np.searchsorted(instance.ids, route)].sum())
    label = f"{k + 1}: {count_text(len(route))}, {load}/{instance.capacity}"
    return Line2D([], [], color=colour(k), linestyle=dash, linewidth=2.4, label=label)


def _arrow(path: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Return middle and way of the first leg of ``path`` ``(N, 2)`` with a length, None without one."""
    ways = np.diff(path, axis=0)
    for k in np.flatnonzero((ways != 0).any(axis=1))[:1]:
        return (path[k] + path[k + 1]) / 2, ways[k]
    return None


def _by_place(nodes: Sequence[int], xy: NDArray[np.float64]) -> dict[tuple[float, float], str]:
    """Return the numbers of the stops ``nodes``, from 1, by place; those of one place together."""
    places: dict[tuple[float, float], list[str]] = {}
    for number, node in enumerate(nodes, start=1):
        places.setdefault((float(xy[node, 0]), float(xy[node, 1])), []).append(str(number))
    return {place: ", ".join(numbers) for place, numbers in places.items()}


def _label(axis: Axes, solved: Solved) -> None:
    city, instance, names = solved.planned.city, solved.planned.day.instance, solved.planned.addresses.ids
    boxed: dict[str, Any] = {"boxstyle": "round,pad=0.2", "linewidth": 0}
    crowded: set[int] = set()  # customers with the route's number on their right
    for k, route in enumerate(solved.solution.routes):
        delta = city.xy[list(route)] - city.xy[DEPOT]
        far = int(np.hypot(*delta.T).argmax())
        aligned: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "va": "center", "zorder": 6}
        shift = delta[far] / (float(np.hypot(*delta[far])) or 1.0) * 17
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
        shift = (-7 if node in crowded else 7, 4)
        axis.annotate(text, tuple(city.xy[node]), shift, fontsize=FONT - 4, zorder=4, **side)


def _plain(text: str) -> str:
    """Return ``text`` escaped so that Matplotlib does not typeset it as mathematics."""
    return text.replace("$", r"\$")


def map_page(solved: Solved, routes: Sequence[Sequence[Stop]]) -> str:
    """Return the page; ``routes`` are the stops of each route, including the depot."""
    planned, summary = solved.planned, solved.summary
    city, instance = planned.city, planned.day.instance
    points = _to_page(city.xy)
    factor, name = readable_unit(coordinate_unit(city, planned.addresses), _spread(city.xy))
    rest = np.setdiff1d(np.arange(1, city.customers + 1), instance.ids)
    further = dict(list(further_columns(planned).items())[:_FURTHER])
    return markdown.render(
        "mcvrp.tasks.solve",
        "map.html.j2",
        orders=summary.orders,
        city=summary.city,
        customers=summary.customers,
        measure=measure(city),
        cost=length_text(summary.cost, city.unit),
        capacity=instance.capacity,
        depot={"at": _dot(points[DEPOT]), "name": planned.addresses.ids[DEPOT]},
        rest="".join(map(_dot, points[rest])),
        count_text=count_text,
        routes=[_drawn(stops, points, city.unit, instance.capacity, further) for stops in routes],
        side=_SIDE + 2 * _MARGIN,
        scale={"length": _spread(city.xy) / _SIDE * factor, "unit": f" {unit_text(name)}"},
    )


def _drawn(
    stops: Sequence[Stop],
    points: NDArray[np.float64],
    unit: str,
    capacity: int,
    further: Mapping[str, Mapping[int, str]],
) -> dict[str, object]:
    path = points[[stop.node for stop in stops]]
    middle, (east, south) = _arrow(path) or (None, (0.0, 0.0))
    return {
        "number": stops[0].route,
        "colour": colour(stops[0].route - 1),
        "line": "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in path),
        "arrow": middle,
        "degrees": round(float(np.degrees(np.arctan2(south, east)))),
        "numbers": _by_place([stop.node for stop in stops[1:-1]], points.round(1)),
        "load": stops[-1].load_after,
        "share": round(100 * stops[-1].load_after / capacity),
        "cost": length_text(stops[-1].cumulative_cost, unit),
        "stops": [
            {
                "at": _dot(points[stop.node]),
                "customer": stop.customer,
                "demand": stop.demand,
                "stop": stop.stop,
                "cost": length_text(stop.cumulative_cost, unit),
                "further": {name: shortened(text, _TEXT) for name, text in at_stop(further, stop).items()},
            }
            for stop in stops[1:-1]
        ],
    }


def _to_page(xy: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``xy`` ``(N, 2)`` in the page's coordinates: equal scale in both directions, north up."""
    scaled = (xy - xy.min(axis=0)) * (_SIDE / _spread(xy))
    return np.column_stack([_MARGIN + scaled[:, 0], _MARGIN + scaled[:, 1].max() - scaled[:, 1]])


def _spread(xy: NDArray[np.float64]) -> float:
    return float(np.ptp(xy, axis=0).max()) or 1.0


def _dot(point: NDArray[np.float64]) -> str:
    """Return a dot as a path of zero length, so that its size does not change with the zoom."""
    return f"M{point[0]:.1f} {point[1]:.1f}h0"
