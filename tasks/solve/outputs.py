"""Files of a routed day: stops as CSV, routes as GeoJSON, a map as picture and page, a summary, and a README.

A summary is written last: a folder without one is not finished.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import PurePath

import numpy as np
import pandas as pd

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import DEPOT
from mcvrp.storage.store.store import Store
from mcvrp.tasks.files.csv_cells import csv_bytes
from mcvrp.tasks.files.cvrplib import sol_text
from mcvrp.tasks.solve.day import Planned, Solved
from mcvrp.tasks.solve.readme import sol_name, solve_readme

SUMMARY = "summary.json"
_DECIMALS = 6  # of a cost; of degrees, 10 cm
_LONGEST = 40  # letters of a folder's name that come from the orders' name


@dataclass(frozen=True)
class Stop:
    """A line of routes.csv: where a vehicle is, with which load, and what it cost to get there."""

    route: int
    stop: int
    customer: str
    demand: int
    load_after: int
    leg_cost: float
    cumulative_cost: float


@dataclass(frozen=True)
class Place:
    """Folder of a day's files in a store, which for the command is any folder."""

    store: Store
    folder: str = ""

    def path(self, name: str) -> str:
        """Return the path of the file ``name`` in the store."""
        return f"{self.folder}/{name}" if self.folder else name

    @property
    def url(self) -> str:
        """The address of the folder, for people."""
        return self.store.url(self.folder)

    def found(self) -> str | None:
        """Return the digest of the orders whose routes are here, None where there is nothing.

        Raises
        ------
        McvrpError
            If there is something else.
        """
        if self.store.exists(self.path(SUMMARY)):
            summary = self.store.get_json(self.path(SUMMARY))
            if isinstance(summary, dict) and "digest" in summary and "orders" in summary:
                return str(summary["digest"])
        files = self.store.list(self.folder)
        if files:
            raise McvrpError(
                f"{self.url} holds files that are no routes of ours ({files[0]}): give a folder of its own"
            )
        return None


def day_name(planned: Planned) -> str:
    """Return the name of the day's folder: that of the orders' file, and what they are."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", PurePath(planned.day.source).stem).strip("-._")[:_LONGEST]
    return f"{stem or 'orders'}-{planned.digest}"


def require_free(place: Place, planned: Planned, overwrite: bool) -> str | None:
    """Return what to say if the routes of these very orders are there, to be replaced.

    Raises
    ------
    McvrpError
        If there is something else, and where that are other orders' routes, ``overwrite`` does not allow it.
    """
    found = place.found()
    if found is None:
        return None
    if found == planned.digest:
        return "routes of the same orders were there and are replaced"
    if not overwrite:
        raise McvrpError(
            f"{place.url} holds the routes of other orders: give another --out, or --overwrite to "
            "replace them"
        )
    return "routes of other orders were there and are replaced"


def write_day(place: Place, solved: Solved) -> tuple[str, ...]:
    """Write the files of a day; return their addresses, README.md first."""
    from mcvrp.tasks.solve.map import route_map
    from mcvrp.tasks.solve.page import map_page

    stops, card = stops_of(solved), solved.planned.card
    sol = sol_name(solved.planned)
    files: Mapping[str, bytes] = {
        "README.md": solve_readme(solved).encode(),
        "routes.csv": _csv(stops),
        "routes.geojson": _geojson(solved, stops),
        "map.png": route_map(solved),
        "map.html": map_page(solved, stops).encode(),
        **({sol: sol_text(solved.planned.city, solved.solution).encode()} if sol else {}),
        "spec.json": _json(
            {
                "city": solved.planned.city_name,
                "model": card.name if card else None,
                "model_version": card.version if card else None,
                "capacity": solved.planned.day.instance.capacity,
                "solve": solved.planned.spec.model_dump(mode="json"),
            }
        ),
        SUMMARY: _json(asdict(solved.summary)),
    }
    place.store.delete(place.path(SUMMARY))  # what was there is no longer whole
    for name, data in files.items():
        place.store.put(place.path(name), data)
    return tuple(place.store.url(place.path(name)) for name in files)


def _json(document: Mapping[str, object]) -> bytes:
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()


def stops_of(solved: Solved) -> list[list[Stop]]:
    """Return the stops of each route: the depot, the customers in their order, the depot again."""
    city, instance, ids = solved.planned.city, solved.planned.day.instance, solved.planned.addresses.ids
    demand = dict(zip(instance.ids.tolist(), instance.demands.tolist(), strict=True))
    routes = []
    for number, route in enumerate(solved.solution.routes, start=1):
        path = np.array([DEPOT, *route, DEPOT])
        legs = np.concatenate([[0.0], city.legs(path)])
        demands = [demand.get(node, 0) for node in path.tolist()]
        loads, costs = np.cumsum(demands), np.cumsum(legs)
        routes.append(
            [
                Stop(
                    number,
                    stop,
                    ids[node],
                    demands[stop],
                    int(loads[stop]),
                    round(float(legs[stop]), _DECIMALS),
                    round(float(costs[stop]), _DECIMALS),
                )
                for stop, node in enumerate(path.tolist())
            ]
        )
    return routes


def _csv(routes: list[list[Stop]]) -> bytes:
    return csv_bytes(pd.DataFrame([asdict(stop) for route in routes for stop in route]))


def _geojson(solved: Solved, routes: list[list[Stop]]) -> bytes:
    """Return routes, customers and depot as GeoJSON (RFC 7946).

    Degrees where the city has them; else its own coordinates, and a member that says so.
    """
    from mcvrp.tasks.solve.map import colour

    planned = solved.planned
    lonlat, capacity = planned.addresses.lonlat, planned.day.instance.capacity
    points = np.round(planned.city.xy if lonlat is None else lonlat, _DECIMALS + 1).tolist()
    features: list[dict[str, object]] = []
    for nodes, stops in zip(solved.solution.routes, routes, strict=True):
        load = stops[-1].load_after
        line = {
            "kind": "route",
            "route": stops[0].route,
            "customers": len(nodes),
            "load": load,
            "capacity": capacity,
            "utilisation": round(load / capacity, 4),
            "cost": stops[-1].cumulative_cost,
            "stroke": colour(stops[0].route - 1),
            "stroke-width": 3,
        }
        path = [points[node] for node in (DEPOT, *nodes, DEPOT)]
        features.append(_feature("LineString", path, line))
        for node, stop in zip(nodes, stops[1:-1], strict=True):
            customer = {"kind": "customer", "customer": stop.customer, "demand": stop.demand}
            place = {"route": stop.route, "stop": stop.stop, "marker-color": line["stroke"]}
            features.append(_feature("Point", points[node], customer | place))
    depot = {"kind": "depot", "customer": planned.addresses.ids[DEPOT], "marker-color": "#000000"}
    features.append(_feature("Point", points[DEPOT], depot))
    document: dict[str, object] = {"type": "FeatureCollection", "features": features}
    if lonlat is None:
        document["coordinates"] = "x and y of the city, as they were imported or drawn: no degrees"
    return (json.dumps(document, ensure_ascii=False) + "\n").encode()


def _feature(kind: str, coordinates: object, properties: Mapping[str, object]) -> dict[str, object]:
    geometry = {"type": kind, "coordinates": coordinates}
    return {"type": "Feature", "geometry": geometry, "properties": dict(properties)}
