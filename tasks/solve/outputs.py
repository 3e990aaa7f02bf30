"""What is written about a routed day: stops as CSV, routes as GeoJSON, a map, a summary, and what all is.

A summary is written last: a folder without one is not finished.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, fields
from pathlib import PurePath

import numpy as np

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import DEPOT, Solution, cost
from mcvrp.storage.store.store import Store
from mcvrp.tasks.solve.day import Planned, Solved, SolveSummary
from mcvrp.tasks.solvers.registry import SOLVERS
from mcvrp.tasks.support.progress import duration
from mcvrp.tasks.support.text import length_text

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
    """Where the files of a day go: a folder of a store, which for the command is any folder."""

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

    stops = stops_of(solved)
    files: Mapping[str, bytes] = {
        "README.md": solve_readme(solved).encode(),
        "routes.csv": _csv(stops),
        "routes.geojson": _geojson(solved, stops),
        "map.png": route_map(solved),
        "spec.json": _json(
            {
                "city": solved.planned.city_name,
                "model": solved.planned.card.name,
                "model_version": solved.planned.card.version,
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
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(field.name for field in fields(Stop))
    writer.writerows(astuple(stop) for route in routes for stop in route)
    return text.getvalue().encode()


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


# What there is to say about a routed day

_POLISHED = {"none": "", "local-search": ", each polished by local search"}

_FILES = """\
## Files

- `routes.csv`: a line a stop, for a vehicle in the order of driving. A route begins (stop 0) and ends
  at the depot. `customer` is what the city calls the address; `load_after` is the demand served on the
  route so far, this stop included (what is still on board of a delivery is the route's last
  `load_after` minus this one); `leg_cost` is the cost of the way from the stop before, `cumulative_cost`
  of the way since the depot. The cost of the day is the sum of all `leg_cost`.
- `routes.geojson`: each route as a LineString, each customer and the depot as a Point, for any map
  program. {coordinates}
  Lines between stops are straight, whatever the costs are made of.
- `map.png`: the same as a picture.
- `summary.json`: the figures above for programs, with more decimals.
- `spec.json`: what was asked for: model, samples, time, polish.
"""
_DEGREES = "Longitude and latitude (WGS 84), as RFC 7946 has it."
_OWN = (
    "The city has no longitude and latitude:\n  coordinates are its own x and y, not what RFC 7946 expects, "
    "and the document's member\n  `coordinates` says so."
)


def solve_readme(solved: Solved) -> str:
    """Return the README in Markdown."""
    summary, planned = solved.summary, solved.planned
    coordinates = _OWN if planned.addresses.lonlat is None else _DEGREES
    rows = "\n".join(f"| {name} | {value} |" for name, value in solve_figures(summary).items())
    notes = "".join(f"- {note}\n" for note in summary.notes)
    told = f"## To know\n\n{notes}\n" if notes else ""
    title = f"# Routes of {summary.orders}, city {summary.city}"
    return (
        f"{title}\n\n| | |\n|---|---|\n{rows}\n\n![The routes](map.png)\n\n{told}{route_table(solved)}\n\n"
        + _FILES.format(coordinates=coordinates)
    )


def route_table(solved: Solved) -> str:
    """Return the routes as a Markdown table, a row each: customers, load, cost."""
    city, instance, unit = solved.planned.city, solved.planned.day.instance, solved.summary.unit
    demand = dict(zip(instance.ids.tolist(), instance.demands.tolist(), strict=True))
    lines = ["| Route | Customers | Load | Of a vehicle | Cost |", "|--:|--:|--:|--:|--:|"]
    for number, route in enumerate(solved.solution.routes, start=1):
        load = sum(demand[node] for node in route)
        share = f"{100 * load / instance.capacity:.0f} %"
        price = length_text(cost(city, Solution((route,))), unit)
        lines.append(f"| {number} | {len(route):,} | {load:,} | {share} | {price} |")
    return "\n".join(lines)


def _polished(polish: str) -> str:
    said = _POLISHED.get(polish)
    return f", the best of them polished by {SOLVERS[polish].label}" if said is None else said


def solve_figures(summary: SolveSummary) -> dict[str, str]:
    """Return the figures of a day, in words."""
    seconds = summary.seconds
    fewest = -(-summary.demand // summary.capacity)
    figures = {
        "orders": f"{summary.lines:,}, of {summary.customers:,} customers who want {summary.demand:,} in all",
        "routes": f"{summary.routes:,} ({fewest:,} at least), {100 * summary.utilisation:.1f} % full "
        f"on average, a vehicle holds {summary.capacity:,}",
        "cost": length_text(summary.cost, summary.unit),
        "by": f"model {summary.model} version {summary.model_version}, "
        f"{summary.samples:,} samples{_polished(summary.polish)} ({summary.device})",
    }
    if summary.polish != "none":
        figures["best sample"] = f"{length_text(summary.best_sample, summary.unit)} before polishing"
    if summary.compared:
        other = summary.compared
        figures[f"{other.label} in equal time"] = (
            f"{length_text(other.cost, summary.unit)}, {other.routes:,} routes; ours: {other.gap:+.2f} %"
        )
    figures["time"] = (
        f"{duration(seconds.start_up)} to start, {duration(seconds.decoding)} decoding, "
        f"{duration(seconds.polishing)} polishing"
    )
    if summary.compared:
        figures["time"] += f"; {duration(seconds.comparing)} {summary.compared.label}"
    return figures
