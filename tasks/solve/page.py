"""Map of a routed day as one self-contained HTML page: zoom, highlight a route, list its stops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mcvrp.model.problem import DEPOT
from mcvrp.storage import markdown
from mcvrp.tasks.solve.day import Solved
from mcvrp.tasks.solve.map import colour
from mcvrp.tasks.solve.stops import Stop
from mcvrp.tasks.support.text import length_text

_SIDE, _MARGIN = 1000.0, 30.0  # of the drawing; the browser scales it


def map_page(solved: Solved, routes: Sequence[Sequence[Stop]]) -> str:
    """Return the page; ``routes`` are the stops of each route, including the depot."""
    planned, summary = solved.planned, solved.summary
    city, instance = planned.city, planned.day.instance
    points = _drawn(city.xy)
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


def _drawn(xy: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``xy`` ``(N, 2)`` in the drawing's coordinates: equal scale in both directions, north up."""
    low, spread = xy.min(axis=0), float(np.ptp(xy, axis=0).max()) or 1.0
    scaled = (xy - low) * (_SIDE / spread)
    return np.column_stack([_MARGIN + scaled[:, 0], _MARGIN + scaled[:, 1].max() - scaled[:, 1]])


def _dot(point: NDArray[np.float64]) -> str:
    """Return a dot as a path of zero length, so that its size does not change with the zoom."""
    return f"M{point[0]:.1f} {point[1]:.1f}h0"
