"""Files of a routed day: stops as CSV, Excel and HTML to print, GeoJSON, maps, summary and README.

The spec is written first and names the orders; the summary is written last: a folder without one is
incomplete.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePath

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mcvrp.model.errors import McvrpError, brief
from mcvrp.model.problem import DEPOT, gap
from mcvrp.storage import layout, markdown
from mcvrp.storage.markdown import card, code, escaped, image, section
from mcvrp.storage.provenance import FIELD, OUTSIDE, Parent, Provenance, made, provenance_line
from mcvrp.storage.store.store import Store
from mcvrp.tasks.city.osrm import Way
from mcvrp.tasks.files.csv_cells import Number, csv_bytes
from mcvrp.tasks.files.cvrplib import SOLUTION, VrpFile, sol_text
from mcvrp.tasks.solve.day import Solved
from mcvrp.tasks.solve.plan import Planned
from mcvrp.tasks.solve.portfolio import Finding
from mcvrp.tasks.solve.stops import (
    SERVICE,
    TIMES,
    Stop,
    at_stop,
    further_columns,
    in_seconds,
    measure,
    shift_texts,
    stops_of,
)
from mcvrp.tasks.support.progress import duration
from mcvrp.tasks.support.text import counted, length_text, unit_text

SPEC, SUMMARY, UNSERVED = "spec.json", "summary.json", "unserved.csv"
_DECIMALS = 7  # of degrees: 1 cm
_LONGEST = 40  # characters of a folder's name that come from the name of the orders


@dataclass(frozen=True)
class Place:
    """Folder of a day's files in a store; the command wraps a local folder as a store."""

    store: Store
    folder: str = ""

    def path(self, name: str) -> str:
        return f"{self.folder}/{name}" if self.folder else name

    @property
    def url(self) -> str:
        return self.store.url(self.folder)


def day_name(planned: Planned) -> str:
    """Return the folder name of a day: the name of its orders, its date and its digest."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", PurePath(planned.day.source).stem).strip("-._")[:_LONGEST]
    date = f"{planned.date}-" if planned.date and str(planned.date) not in stem else ""
    return f"{stem or 'orders'}-{date}{planned.digest}"


def require_free(place: Place, planned: Planned, overwrite: bool) -> str | None:
    """Return a note if the folder holds routes that will be replaced, None if it is empty.

    Raises McvrpError if it holds other files, or without ``overwrite`` routes of another digest, or kept
    ones, of which the new ones keep none.
    """
    path = place.path(SPEC)  # which an interrupted run leaves, too
    document = place.store.get_json(path) if place.store.exists(path) else None
    if isinstance(document, dict) and "digest" in document and "orders" in document:
        if document["digest"] == planned.digest:
            if document.get("kept") and not planned.kept and not overwrite:
                raise McvrpError(
                    f"{place.url} holds routes that were kept: give --keep or another --out, or replace them "
                    "(--overwrite)"
                )
            return "existing routes of the same orders were replaced"
        of = ", ".join(str(document.get(name)) for name in ("orders", "city", "capacity"))
        others = f"routes of other orders, city or capacity ({brief(of)})"
        if overwrite:
            return f"existing {others} were replaced"
        raise McvrpError(f"{place.url} holds the {others}: give another --out, or replace them (--overwrite)")
    if files := place.store.list(place.folder):
        raise McvrpError(
            f"{place.url} holds files that mcvrp solve did not write ({files[0]}): give a new folder"
        )
    return None


def write_day(place: Place, solved: Solved) -> tuple[str, ...]:
    """Write the files of a day and return their addresses, README.md first."""
    from mcvrp.tasks.solve.map import map_page, route_map
    from mcvrp.tasks.solve.sheets import pages, workbook

    planned, dialect = solved.planned, solved.planned.day.dialect
    sol, provenance = sol_name(solved), _provenance(planned)
    spec = {
        "orders": planned.day.source,
        "digest": planned.digest,
        "city": planned.city_name,
        "model": planned.card.name if planned.card else None,
        "model_version": planned.card.version if planned.card else None,
        "capacity": planned.day.instance.capacity,
        "date": planned.date.isoformat() if planned.date else None,
        "solve": planned.spec.model_dump(mode="json"),
        "kept": planned.kept.names if planned.kept else [],
    }
    files: Mapping[str, bytes] = {
        "README.md": solve_readme(solved, provenance_line(provenance)).encode(),
        "routes.csv": csv_bytes(stop_table(solved), dialect),
        "routes.xlsx": workbook(solved),
        "routes.html": pages(solved).encode(),
        "routes.geojson": _geojson(solved),
        "map.png": route_map(solved),
        "map.html": map_page(solved).encode(),
        **({sol: sol_text(planned.city, solved.solution).encode()} if sol else {}),
        **({UNSERVED: csv_bytes(unserved_table(solved), dialect)} if planned.spec.drop else {}),
        SUMMARY: _json({**summary(solved), FIELD: asdict(provenance)}, indent=2),
    }
    place.store.delete(place.path(SUMMARY))  # from here on the existing files are incomplete
    place.store.put(place.path(SPEC), _json(spec, indent=2))
    for name in (UNSERVED, *([_sol(planned.vrp)] if planned.vrp else [])):  # of another run
        place.store.delete(place.path(name))
    for name, data in files.items():
        place.store.put(place.path(name), data)
    return tuple(place.store.url(place.path(name)) for name in (*files, SPEC))


def _provenance(planned: Planned) -> Provenance:
    """Return the provenance of a day: city of the store, model, and orders with the digest of the day."""
    parents = [
        Parent(layout.city_dir(planned.city_name), planned.city.city_id)
        if isinstance(planned.request.city, str)
        else None,
        planned.card.as_parent if planned.card else None,
        Parent(f"{OUTSIDE}{planned.day.source}", planned.digest),
    ]
    return made(parents)


def _json(document: Mapping[str, object], indent: int | None = None) -> bytes:
    return (json.dumps(document, indent=indent, ensure_ascii=False) + "\n").encode()


def stop_table(solved: Solved) -> pd.DataFrame:
    """Return the table of routes.csv; with a date, it has all columns of a file of driven routes."""
    planned, stops = solved.planned, [stop for route in stops_of(solved) for stop in route]
    table = pd.DataFrame([asdict(stop) for stop in stops])
    nodes = table.pop("node").to_numpy()
    table = table.drop(columns=[name for name in TIMES if table[name].isna().all()])
    kept = table.pop("kept")
    if planned.kept:
        table["kept"] = kept.map({True: "yes", False: ""})
    if planned.date:
        table.insert(0, "date", planned.date.isoformat())
        table.insert(5, "capacity", planned.day.instance.capacity)
    first, second = _points(planned)[nodes].T
    if planned.addresses.lonlat is None:
        table = table.assign(x=first, y=second)
    else:
        table = table.assign(lat=second, lon=first)
    return pd.concat([table, _texts(solved, nodes.tolist())], axis=1)


def unserved_table(solved: Solved) -> pd.DataFrame:
    """Return the table of unserved.csv, the highest priority first, with what is known of whom to call."""
    rows = sorted(solved.unserved, key=lambda each: -(each.priority or 0.0))
    table = pd.DataFrame(rows, columns=["customer", "demand", "reason"])
    further = _texts(solved, solved.planned.addresses.nodes(each.customer for each in rows).tolist())
    taken = {name: f"further_{name}" for name in further if str(name).casefold() in table}
    return pd.concat([table, further.rename(columns=taken)], axis=1)


def _texts(solved: Solved, nodes: list[int]) -> pd.DataFrame:
    """Return the further columns of ``nodes``, a row for each."""
    further, decimal = further_columns(solved).items(), solved.planned.day.dialect.decimal
    texts = {name: [column.get(node, "") for node in nodes] for name, column in further}
    if solved.planned.spec.timed:  # a number, which has the decimal sign of the others
        texts[SERVICE] = [Number.read(text, decimal) for text in texts[SERVICE]]
    return pd.DataFrame(texts, dtype=object)  # keeps each `Number`


def _points(planned: Planned) -> NDArray[np.float64]:
    """Return longitude and latitude of the nodes, or x and y without degrees, ``(m + 1, 2)``."""
    lonlat = planned.addresses.lonlat
    return np.round(planned.city.xy if lonlat is None else lonlat, _DECIMALS)


def _geojson(solved: Solved) -> bytes:
    """Return routes, customers and depot as GeoJSON (RFC 7946).

    In degrees if the city has them; otherwise in its own coordinates, which a member of the document
    declares. A route along streets has their minutes and kilometres, and those of its legs.
    """
    from mcvrp.tasks.solve.map import colours

    planned, routes, further = solved.planned, stops_of(solved), further_columns(solved)
    points, capacity = _points(planned), planned.day.instance.capacity
    features, of_routes = list[dict[str, object]](), colours(solved)
    lines = [way.line for way in solved.ways] or [
        points[[DEPOT, *nodes, DEPOT]] for nodes in solved.solution.routes
    ]
    for k, (nodes, stops) in enumerate(zip(solved.solution.routes, routes, strict=True)):
        load = stops[-1].load_after
        line = {
            "kind": "route",
            "route": stops[0].route,
            "customers": len(nodes),
            "load": load,
            "capacity": capacity,
            "utilisation": round(load / capacity, 4),
            "cost": stops[-1].cumulative_cost,
            "stroke": of_routes[k],
            "stroke-width": 3,
            **({"kept": True} if stops[0].kept else {}),
            **(_legs(solved.ways[k], stops) if solved.ways else {}),
        }
        features.append(_feature("LineString", lines[k].tolist(), line))
        for node, stop in zip(nodes, stops[1:-1], strict=True):
            customer = {"kind": "customer", "customer": stop.customer, "demand": stop.demand}
            position = {"route": stop.route, "stop": stop.stop, "marker-color": line["stroke"]}
            times = {name: value for name in TIMES if (value := getattr(stop, name)) is not None}
            properties = customer | position | times | at_stop(further, stop)
            features.append(_feature("Point", points[node].tolist(), properties))
    depot = {"kind": "depot", "customer": planned.addresses.ids[DEPOT], "marker-color": "#000000"}
    features.append(_feature("Point", points[DEPOT].tolist(), depot | at_stop(further, routes[0][0])))
    document: dict[str, object] = {"type": "FeatureCollection", "features": features}
    if planned.addresses.lonlat is None:
        document["coordinates"] = "x and y of the city, as they were imported or drawn: no degrees"
    return _json(document)


def _legs(way: Way, stops: Sequence[Stop]) -> dict[str, object]:
    """Return minutes and kilometres of a route along the streets, and of each leg to the next stop."""
    minutes, kilometres = (way.seconds / 60).round(2), (way.metres / 1000).round(3)
    legs = [
        {"to": stop.customer, "minutes": time, "kilometres": length}
        for stop, time, length in zip(stops[1:], minutes.tolist(), kilometres.tolist(), strict=True)
    ]
    total = {"minutes": round(way.seconds.sum() / 60, 2), "kilometres": round(way.metres.sum() / 1000, 3)}
    return {**total, "legs": legs}


def _feature(kind: str, coordinates: object, properties: Mapping[str, object]) -> dict[str, object]:
    geometry = {"type": kind, "coordinates": coordinates}
    return {"type": "Feature", "geometry": geometry, "properties": dict(properties)}


def solve_readme(solved: Solved, made: str = "") -> str:
    """Return the README in Markdown, with the line of provenance ``made``."""
    planned, sol = solved.planned, sol_name(solved)
    local = planned.day.dialect.local
    notes = [f"- {escaped(note)}" for note in solved.notes]
    stops = (
        "one row per stop, in driving order, from the depot (stop 0) to the depot: `load_after` is the "
        f"demand served on the route so far, this stop included, `leg_cost` the {measure(planned.city)} from "
        f"the previous stop in {unit_text(planned.city.unit)}, `cumulative_cost` that since the depot"
    )
    if in_seconds(planned.city):
        stops += ", `arrival_minutes` the minutes since the depot with the service of earlier stops"
    if further := further_columns(solved):
        stops += f"; carried from the addresses and the orders: {', '.join(map(code, further))}"
    if planned.date:
        stops += ". Corrected where driven otherwise and copied to `incoming/`, it is a file of driven routes"
    places = "longitude and latitude (WGS 84, RFC 7946)"
    if planned.addresses.lonlat is None:
        places = "the city's own x and y, as it has no longitude and latitude"
    lines = "straight between stops whatever the costs"
    if solved.ways:
        lines = "along the streets, with `minutes` and `kilometres` of the route and of each of its `legs`"
    return card(
        f"Routes of {escaped(planned.day.source)}, city {escaped(planned.city_name)}",
        {name: escaped(value) for name, value in solve_figures(solved, local=local).items()},
        image("The routes", "map.png"),
        section("Notes", "\n".join(notes)),
        route_table(solved),
        files={
            "routes.csv": stops,
            "routes.xlsx": "an overview, a sheet per vehicle that prints on A4, and the stops of routes.csv",
            "routes.html": "to print on A4, where each vehicle starts on a new page",
            "routes.geojson": f"routes as lines, {lines}, customers and depot as points, for any map "
            f"program; in {places}",
            "map.png": "map as an image",
            "map.html": "interactive map for the browser, works offline: zoom, highlight a route, list its "
            "stops",
            **({sol: "the routes in CVRPLIB format"} if sol else {}),
            **({UNSERVED: "the customers who were left out, with the reason"} if planned.spec.drop else {}),
            SUMMARY: "the figures above in full precision",
            SPEC: "settings: model, samples, time limit, post-optimization",
        },
        made=made,
    )


def sol_name(solved: Solved) -> str | None:
    """Return the name of the .sol file of a CVRPLIB instance, None for other or incomplete orders."""
    vrp = solved.planned.vrp
    return _sol(vrp) if vrp and not solved.unserved else None


def _sol(vrp: VrpFile) -> str:
    return PurePath(vrp.name).stem + SOLUTION


def route_table(solved: Solved) -> str:
    """Return the routes as a Markdown table: customers, load, utilization, cost."""
    capacity, unit = solved.planned.day.instance.capacity, solved.planned.city.unit
    local = solved.planned.day.dialect.local
    rows = [
        [
            escaped(stops[0].of_route),
            f"{len(stops) - 2:,}",
            f"{stops[-1].load_after:,}",
            f"{100 * stops[-1].load_after / capacity:.0f} %",
            local(length_text(stops[-1].cumulative_cost, unit)),
        ]
        for stops in stops_of(solved)
    ]
    header = ["Route", "Customers", "Load", "Utilization", measure(solved.planned.city).capitalize()]
    if times := shift_texts(solved):
        header, rows = (
            [*header, "With its stops"],
            [[*row, time] for row, time in zip(rows, times, strict=True)],
        )
    if solved.planned.spec.start_time is not None:
        header = [*header, "Back at"]
        rows = [[*row, str(stops[-1].arrival)] for row, stops in zip(rows, stops_of(solved), strict=True)]
    return markdown.table(header, rows, len(header) * "r")


def summary(solved: Solved) -> dict[str, object]:
    """Return the figures of a day in full precision, the fields of summary.json and of ``--json``."""
    planned, search, instance = solved.planned, solved.search, solved.instance
    demand, routes = int(instance.demands.sum()), len(solved.solution.routes)
    return {
        "orders": planned.day.source,
        "digest": planned.digest,
        "city": planned.city_name,
        "city_id": planned.city.city_id,
        "unit": planned.city.unit,
        "straight": planned.city.matrix is None,  # whether costs are straight-line distances
        "model": planned.card.name if planned.card else None,
        "model_version": planned.card.version if planned.card else None,
        "lines": planned.day.orders,
        "customers": instance.n,
        "demand": demand,
        "capacity": instance.capacity,
        "routes": routes,
        "utilisation": demand / (routes * instance.capacity),
        "cost": solved.cost,
        "best_known": solved.best_known,
        "service": planned.day.wishes.service_text,  # empty without a shift
        "found_by": solved.found_by,
        "findings": [asdict(finding) for finding in search.findings],
        "seconds": {"start_up": search.start_up, "search": search.seconds},
        "unserved": [asdict(each) for each in solved.unserved],
        "notes": list(solved.notes),
        "failures": list(solved.failures),
    }


def solve_figures(
    solved: Solved, *, verbose: bool = False, local: Callable[[str], str] = str
) -> dict[str, str]:
    """Return the key figures of a day as text, by name; with ``verbose`` also what each member found.

    ``local`` writes lengths in a decimal sign.
    """
    planned, search, instance, price = solved.planned, solved.search, solved.instance, solved.cost
    unit, demand, routes = planned.city.unit, int(instance.demands.sum()), len(solved.solution.routes)
    ordered = planned.day.demands
    figures = {
        "city": planned.city_name,
        "orders": f"{counted(planned.day.orders, 'order')} of {counted(len(ordered), 'customer')}, "
        f"total demand {sum(ordered.values()):,}",
        "routes": f"{routes:,}, vehicle capacity {instance.capacity:,}, average utilization "
        + local(f"{100 * demand / (routes * instance.capacity):.1f} %"),
        "cost": f"{local(length_text(price, unit))}, {measure(planned.city)}".removesuffix(", cost"),
        "found by": solved.found_by,
    }
    if service := planned.day.wishes.service_text:
        figures["service time"] = service
    if start := planned.spec.start_time:
        times = {str(stops[-1].arrival): stops[-1] for stops in stops_of(solved)}
        back = times[max(times, key=lambda time: (time[5:], time))]  # "00:10 +1" is after "23:50"
        figures["start"] = f"{start}; route {back.of_route} is the last one back, at {back.arrival}"
    if left_out := solved.unserved:
        total = sum(each.demand for each in left_out)
        figures["left out"] = f"{len(left_out):,} of these customers, total demand {total:,}"
    for finding in search.findings if verbose else ():
        figures[finding.by] = _finding_text(finding, price, unit)
    if best := solved.best_known:
        figures["best known"] = f"{local(length_text(best, unit))}; our gap {gap(price, best):.2f} %"
    figures["time"] = f"{duration(search.start_up)} start-up, {duration(search.seconds)} search"
    return figures


def _finding_text(finding: Finding, price: float, unit: str) -> str:
    behind = gap(finding.cost, price) if price else 0.0
    text = f"{length_text(finding.cost, unit)} ({behind:+.2f} %) after {duration(finding.seconds)}"
    if finding.best_sample is None:
        return text
    best = length_text(finding.best_sample, unit)
    return f"{text}, {finding.samples:,} samples on {finding.device}, the best {best} before local search"
