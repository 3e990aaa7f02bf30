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
from mcvrp.tasks.city.addresses import coordinate_unit, to_metres
from mcvrp.tasks.solve.day import Solved
from mcvrp.tasks.solve.stops import (
    Stop,
    at_stop,
    day_text,
    measure,
    printed_columns,
    shortened,
    stops_of,
)
from mcvrp.tasks.support.pictures import BLUE, FONT, GREEN, GREY, ORANGE, PINK, png, show_lengths, style
from mcvrp.tasks.support.text import counted, is_seconds, length_text, time_text

# Neighbouring routes have consecutive numbers: consecutive colours are far apart.
_COLOURS = (BLUE, ORANGE, GREEN, PINK, "#56B4E9", "#8C5A00", "#000000")
_DASHES: tuple[Any, ...] = ("-", (0, (4, 2.5)), (0, (1.2, 1.5)))
_PALE, _OUT = "#D4D4D4", "#C00000"
_NUMBERED = 120  # maximum number of customers with their stop's number on the PNG
_LEGEND, _LARGE = 40, 18  # maximum number of routes in the legend, and in large type
_POINTS = 370.0  # of the PNG's map from edge to edge of the addresses
_EDGE = 0.07  # of that, around them: room for numbers of routes
_DOT, _BOX = 11.0, 17.0  # points: a numbered stop, and a route's number beside it
_DPI = 120  # small enough for Prefect to show the picture inline
_SIDE, _MARGIN = 1000.0, 30.0  # of the page's drawing; the browser scales it
_NAME = 14  # characters of a customer's name
_TEXT = 120  # characters of a text


def colours(solved: Solved) -> list[str]:
    """Return the colour of each route."""
    return [_COLOURS[k % len(_COLOURS)] for k in range(len(solved.solution.routes))]


def route_map(solved: Solved) -> bytes:
    """Return the map as PNG."""
    city, instance = solved.planned.city, solved.instance
    figure = Figure(figsize=(9.6, 7.2), dpi=_DPI, layout="constrained")
    axis, beside = figure.subplots(1, 2, width_ratios=[4, 1])
    style(axis)
    beside.set_axis_off()
    rest, left_out = _without_stop(solved)
    pale: dict[str, Any] = {"color": _PALE, "linewidths": 0, "rasterized": True, "zorder": 1}
    axis.scatter(city.xy[rest, 0], city.xy[rest, 1], s=max(1.5, min(16, 4000 / max(len(rest), 1))), **pale)
    handles = [_draw(axis, solved, k, line) for k, line in enumerate(lines_of(solved))]
    _number(axis, solved, _draw_stops(axis, solved))
    depot: dict[str, Any] = {"marker": "s", "color": "black", "markeredgecolor": "white", "linestyle": "none"}
    addresses, unit = solved.planned.addresses, coordinate_unit(city, solved.planned.addresses)
    name = f"Depot ({_plain(addresses.ids[DEPOT][:_NAME])})"
    axis.plot(*city.xy[DEPOT], markersize=9, zorder=5, label=name, **depot)
    if len(left_out):
        cross: dict[str, Any] = {"marker": "X", "s": 110, "color": _OUT, "edgecolors": "white", "zorder": 5}
        axis.scatter(*city.xy[left_out].T, label="Left out", **cross)
    edge = _EDGE * _spread(axis.dataLim.get_points())  # a margin would give way to the equal aspect
    axis.update_datalim([axis.dataLim.min - edge, axis.dataLim.max + edge])
    axis.set_aspect("equal", adjustable="datalim")
    axis.autoscale_view()
    names = ("East", "North") if addresses.projection else ("x", "y")
    show_lengths(axis, _spread(city.xy), unit, names)
    title = filter(None, [solved.planned.day.source, day_text(solved.planned.date)])
    axis.set_title(
        f"{_plain(', '.join(title))}: {counted(instance.n, 'customer')}, "
        f"{counted(len(solved.solution.routes), 'route')},\n"
        f"{measure(city)} {length_text(solved.cost, city.unit)}"
    )
    if len(rest):
        axis.plot([], [], "o", color=_PALE, label="No stop today")
    _legend(beside, handles, axis.get_legend_handles_labels()[0], instance.n)
    for text in axis.texts:  # all within the axes: their extents cost half of the time
        text.set_in_layout(False)
    return png(figure)


def _without_stop(solved: Solved) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the customers without orders, and those who are left out."""
    ordered, every = list(solved.planned.day.demands), np.arange(1, solved.planned.city.customers + 1)
    return np.setdiff1d(every, ordered), np.setdiff1d(ordered, solved.instance.ids)


def _legend(beside: Axes, routes: list[Line2D], others: list[Any], customers: int) -> None:
    """Draw the legend: routes, ``others``, and what numbers on the map mean."""
    meanings = {"s": "Number in a box: route"}
    if customers <= _NUMBERED:
        meanings["o"] = "Number in a dot: order\nof driving"
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


def lines_of(solved: Solved) -> list[NDArray[np.float64]]:
    """Return the line of each route in the city's coordinates: along the streets, or straight."""
    xy, projection = solved.planned.city.xy, solved.planned.addresses.projection
    if solved.ways and projection:
        return [to_metres(projection, way.line) for way in solved.ways]
    return [xy[[DEPOT, *route, DEPOT]] for route in solved.solution.routes]


def _draw(axis: Axes, solved: Solved, k: int, line: NDArray[np.float64]) -> Line2D:
    instance, route = solved.instance, list(solved.solution.routes[k])
    thin, colour = max(0.9, 2.4 - instance.n / 200), _COLOURS[k % len(_COLOURS)]
    dash = _DASHES[k // len(_COLOURS) % len(_DASHES)]
    axis.plot(*line.T, color=colour, linestyle=dash, linewidth=thin, zorder=2)
    load = int(instance.demands[np.searchsorted(instance.ids, route)].sum())
    name = _plain(shortened(solved.names[k], _NAME))
    kept = ", kept" if k < len(solved.planned.decided.routes) else ""
    label = f"{name}: {counted(len(route), 'stop')}, {load}/{instance.capacity}{kept}"
    return Line2D([], [], color=colour, linestyle=dash, linewidth=2.4, label=label)


def _draw_stops(axis: Axes, solved: Solved) -> NDArray[np.float64]:
    """Draw the stops of all routes and return their places, the depot first; numbered dots do not overlap."""
    xy, customers = solved.planned.city.xy, solved.instance.n
    labels = [_by_place(route, xy) for route in solved.solution.routes]
    places = np.array([tuple(xy[DEPOT]), *(place for each in labels for place in each)])
    looks: dict[str, Any] = {"edgecolors": "white", "linewidths": 0.5, "zorder": 3}
    if numbered := customers <= _NUMBERED:
        places = _apart(places, _DOT * _spread(xy) / _POINTS)
    size = 95 if numbered else 18 * max(0.9, 2.4 - customers / 200)
    centred: dict[str, Any] = {"ha": "center", "va": "center_baseline", "color": "white", "zorder": 4}
    first = 1
    for each, colour in zip(labels, colours(solved), strict=True):
        here = places[first : first + len(each)]
        first += len(each)
        axis.scatter(here[:, 0], here[:, 1], s=size, color=colour, **looks)
        if numbered:
            for place, numbers in zip(here.tolist(), each.values(), strict=True):
                axis.annotate(numbers, place, fontsize=FONT - 5 if len(numbers) < 3 else FONT - 7, **centred)
    return places


def _apart(places: NDArray[np.float64], least: float) -> NDArray[np.float64]:
    """Return ``places`` ``(N, 2)``, moved so that any two are about ``least`` apart; the first stays."""
    angles = np.arange(len(places)) * 2.4  # so that equal places part
    moved = places + least / 100 * np.column_stack([np.cos(angles), np.sin(angles)])
    for _ in range(100):
        moved[0] = places[0]
        delta = moved[:, None] - moved
        distance = np.hypot(delta[..., 0], delta[..., 1]) + np.diag(np.full(len(places), np.inf))
        push = np.maximum(least - distance, 0.0) / 2 / distance
        if not push.any():
            break
        moved += (delta * push[..., None]).sum(1)
    moved[0] = places[0]
    return moved


def _by_place(nodes: Sequence[int], xy: NDArray[np.float64]) -> dict[tuple[float, float], str]:
    """Return the numbers of the stops ``nodes``, from 1, by place; those of one place together."""
    places: dict[tuple[float, float], list[str]] = {}
    for number, node in enumerate(nodes, start=1):
        places.setdefault((float(xy[node, 0]), float(xy[node, 1])), []).append(str(number))
    return {place: ", ".join(numbers) for place, numbers in places.items()}


def _number(axis: Axes, solved: Solved, stops: NDArray[np.float64]) -> None:
    """Write the number of each route beside its farthest customer, where it hides as little as possible.

    ``stops`` are the places of depot and dots, ``(N, 2)``.
    """
    city, point = solved.planned.city, _spread(solved.planned.city.xy) / _POINTS
    names, of_routes = solved.names, colours(solved)
    for k, route in enumerate(solved.solution.routes):
        delta = city.xy[list(route)] - city.xy[DEPOT]
        far = int(np.hypot(*delta.T).argmax())
        outwards = float(np.arctan2(*delta[far][::-1]))
        turns = outwards + np.arange(12) * (np.pi / 6)
        shifts = _BOX * np.column_stack([np.cos(turns), np.sin(turns)])
        centres = city.xy[route[far]] + shifts * point
        shift = shifts[np.hypot(*(centres[:, None] - stops).transpose(2, 0, 1)).min(axis=1).argmax()]
        stops = np.vstack([stops, city.xy[route[far]] + shift * point])
        looks: dict[str, Any] = {"ha": "center", "va": "center", "color": "white", "fontsize": FONT - 2}
        axis.annotate(
            _plain(shortened(names[k], _NAME)),
            tuple(city.xy[route[far]]),
            tuple(shift.tolist()),
            textcoords="offset points",
            fontweight="bold",
            bbox={"boxstyle": "round,pad=0.2", "linewidth": 0, "facecolor": of_routes[k]},
            zorder=6,
            **looks,
        )


def _plain(text: str) -> str:
    """Return ``text`` escaped so that Matplotlib does not typeset it as mathematics."""
    return text.replace("$", r"\$")


def map_page(solved: Solved) -> str:
    """Return the page."""
    planned, city, instance = solved.planned, solved.planned.city, solved.instance
    lines = lines_of(solved)
    frame = np.vstack([city.xy, *lines])
    points = _to_page(city.xy, frame)
    rest, left_out = _without_stop(solved)
    further, of_routes = printed_columns(solved), colours(solved)
    return markdown.render(
        "mcvrp.tasks.solve",
        "map.html.j2",
        orders=planned.day.source,
        day=day_text(planned.date),
        city=planned.city_name,
        counts=f"{counted(instance.n, 'customer')}, {counted(len(lines), 'route')}",
        measure=measure(city),
        timed=is_seconds(city.unit),
        cost=length_text(solved.cost, city.unit),
        capacity=instance.capacity,
        on_streets=bool(solved.ways),
        depot={"at": _dot(points[DEPOT]), "name": planned.addresses.ids[DEPOT]},
        rest="".join(map(_dot, points[rest])),
        left_out=list(zip(points[left_out].tolist(), solved.unserved, strict=True)),
        routes=[
            _drawn(k, stops, _to_page(line, frame), points, city.unit, instance.capacity, further)
            | {"colour": of_routes[k], "dash": ("", "9 6", "2 5")[k // len(_COLOURS) % 3]}
            for k, (stops, line) in enumerate(zip(stops_of(solved), lines, strict=True))
        ],
        side=_SIDE + 2 * _MARGIN,
    )


def _drawn(
    k: int,
    stops: Sequence[Stop],
    line: NDArray[np.float64],
    points: NDArray[np.float64],
    unit: str,
    capacity: int,
    further: Mapping[str, Mapping[int, str]],
) -> dict[str, object]:
    return {
        "number": k + 1,
        "name": shortened(str(stops[0].route), _NAME),
        "title": stops[0].of_route,
        "kept": stops[0].kept,
        "line": "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in line),
        "numbers": _by_place([stop.node for stop in stops[1:-1]], points.round(1)),
        "count": counted(len(stops) - 2, "stop"),
        "load": stops[-1].load_after,
        "share": round(100 * stops[-1].load_after / capacity),
        "cost": length_text(stops[-1].cumulative_cost, unit),
        "back": stops[-1].arrival,
        "stops": [
            {
                "at": _dot(points[stop.node]),
                "customer": stop.customer,
                "demand": stop.demand,
                "stop": stop.stop,
                "when": _when(stop, unit),
                "further": {name: shortened(text, _TEXT) for name, text in at_stop(further, stop).items()},
            }
            for stop in stops[1:-1]
        ],
    }


def _when(stop: Stop, unit: str) -> str:
    """Return the time of arrival, or the time or else the length since the depot."""
    if stop.arrival:
        return f"at {stop.arrival}"
    if stop.arrival_minutes is not None:
        return f"after {time_text(60 * stop.arrival_minutes)}"
    return f"after {length_text(stop.cumulative_cost, unit)}"


def _to_page(xy: NDArray[np.float64], frame: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``xy`` ``(N, 2)`` in the page's coordinates, which ``frame`` fills: equal scales, north up."""
    scale = _SIDE / _spread(frame)
    east, north = ((xy - frame.min(axis=0)) * scale).T
    return np.column_stack([_MARGIN + east, _MARGIN + np.ptp(frame[:, 1]) * scale - north])


def _spread(xy: NDArray[np.float64]) -> float:
    return float(np.ptp(xy, axis=0).max()) or 1.0


def _dot(point: NDArray[np.float64]) -> str:
    """Return a dot as a path of zero length, so that its size does not change with the zoom."""
    return f"M{point[0]:.1f} {point[1]:.1f}h0"
