"""Files of a routed day: stops as CSV, Excel and GeoJSON, maps, summary and README.

The spec is written first and names the orders; the summary is written last: a folder without one is
incomplete.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
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
from mcvrp.tasks.files.cells import Number, csv_bytes
from mcvrp.tasks.files.cvrplib import SOLUTION, VrpFile, sol_text
from mcvrp.tasks.solve.day import Solved
from mcvrp.tasks.solve.plan import Planned
from mcvrp.tasks.solve.stops import (
    SERVICE,
    TIMES,
    at_stop,
    further_columns,
    measure,
    shift_texts,
    stops_of,
)
from mcvrp.tasks.support.progress import duration
from mcvrp.tasks.support.text import counted, is_seconds, length_text, unit_text

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


def require_free(place: Place, planned: Planned, overwrite: bool) -> None:
    """Raise McvrpError if the folder holds other files than those of a day.

    Without ``overwrite`` also if they are of another digest, or kept routes, of which the new ones keep none.
    """
    path = place.path(SPEC)  # which an interrupted run leaves, too
    document = place.store.get_json(path) if place.store.exists(path) else None
    if isinstance(document, dict) and "digest" in document and "orders" in document:
        if overwrite:
            return
        if document["digest"] != planned.digest:
            of = ", ".join(str(document.get(name)) for name in ("orders", "city", "capacity"))
            raise McvrpError(
                f"{place.url} holds the routes of other orders, city or capacity ({brief(of)}): give another "
                "--out, or replace them (--overwrite)"
            )
        if document.get("kept") and not planned.kept:
            raise McvrpError(
                f"{place.url} holds routes that were kept: give --keep or another --out, or replace them "
                "(--overwrite)"
            )
    elif files := place.store.list(place.folder):
        raise McvrpError(
            f"{place.url} holds files that mcvrp solve did not write ({files[0]}): give a new folder"
        )


def write_day(place: Place, solved: Solved) -> tuple[str, ...]:
    """Write the files of a day and return their addresses, README.md first."""
    from mcvrp.tasks.solve.map import map_page, route_map
    from mcvrp.tasks.solve.sheets import workbook

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
    return pd.concat([table, further], axis=1)


def _texts(solved: Solved, nodes: list[int]) -> pd.DataFrame:
    """Return the further columns of ``nodes``, a row for each."""
    further, decimal = further_columns(solved).items(), solved.planned.day.dialect.decimal
    texts = {name: [column.get(node, "") for node in nodes] for name, column in further}
    if solved.planned.spec.timed:  # a number, which has the decimal sign of the others
        texts[SERVICE] = [Number.read(text.replace(".", decimal), decimal) for text in texts[SERVICE]]
    return pd.DataFrame(texts, dtype=object)  # keeps each `Number`


def _points(planned: Planned) -> NDArray[np.float64]:
    """Return longitude and latitude of the nodes, or x and y without degrees, ``(m + 1, 2)``."""
    lonlat = planned.addresses.lonlat
    return np.round(planned.city.xy if lonlat is None else lonlat, _DECIMALS)


def _geojson(solved: Solved) -> bytes:
    """Return routes, customers and depot as GeoJSON (RFC 7946), in degrees if the city has them."""
    planned, routes, further = solved.planned, stops_of(solved), further_columns(solved)
    points, features = _points(planned), list[dict[str, object]]()
    lines = [way.line for way in solved.ways] or [
        points[[DEPOT, *nodes, DEPOT]] for nodes in solved.solution.routes
    ]
    for line, stops in zip(lines, routes, strict=True):
        last = stops[-1]
        route = {"kind": "route", "route": last.route, "load": last.load_after, "cost": last.cumulative_cost}
        features.append(_feature("LineString", line.tolist(), route))
        for stop in stops[1:-1]:
            own = {
                name: value for name, value in asdict(stop).items() if name != "node" and value is not None
            }
            customer = at_stop(further, stop) | own | {"kind": "customer"}
            features.append(_feature("Point", points[stop.node].tolist(), customer))
    depot = {"kind": "depot", "customer": planned.addresses.ids[DEPOT]}
    features.append(_feature("Point", points[DEPOT].tolist(), at_stop(further, routes[0][0]) | depot))
    return _json({"type": "FeatureCollection", "features": features})


def _feature(kind: str, coordinates: object, properties: Mapping[str, object]) -> dict[str, object]:
    geometry = {"type": kind, "coordinates": coordinates}
    return {"type": "Feature", "geometry": geometry, "properties": dict(properties)}


def solve_readme(solved: Solved, made: str = "") -> str:
    """Return the README in Markdown, with the line of provenance ``made``."""
    planned, sol = solved.planned, sol_name(solved)
    notes = [f"- {escaped(note)}" for note in solved.notes]
    stops = (
        "one row per stop, in driving order, from the depot (stop 0) to the depot: `load_after` is the "
        f"demand served on the route so far, this stop included, `leg_cost` the {measure(planned.city)} from "
        f"the previous stop in {unit_text(planned.city.unit)}, `cumulative_cost` that since the depot"
    )
    if is_seconds(planned.city.unit):
        stops += ", `arrival_minutes` the minutes since the depot with the service of earlier stops"
    if further := further_columns(solved):
        stops += f"; carried from the addresses and the orders: {', '.join(map(code, further))}"
    if planned.date:
        stops += ". Corrected where driven otherwise and copied to `incoming/`, it is a file of driven routes"
    places = "longitude and latitude (WGS 84, RFC 7946)"
    if planned.addresses.lonlat is None:
        places = "the city's own x and y, as it has no longitude and latitude"
    lines = "along the streets" if solved.ways else "straight between stops whatever the costs"
    return card(
        f"Routes of {escaped(planned.day.source)}, city {escaped(planned.city_name)}",
        {name: escaped(value) for name, value in solve_figures(solved).items()},
        image("The routes", "map.png"),
        section("Notes", "\n".join(notes)),
        route_table(solved),
        files={
            "routes.csv": stops,
            "routes.xlsx": "an overview, a sheet per vehicle that prints on A4, and the stops of routes.csv",
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
    times, clock = shift_texts(solved), solved.planned.spec.start_time is not None
    header = ["Route", "Customers", "Load", "Utilization", measure(solved.planned.city).capitalize()]
    header += ["With its stops"] * bool(times) + ["Back at"] * clock
    rows = list[list[str]]()
    for k, stops in enumerate(stops_of(solved)):
        last = stops[-1]
        load, share = f"{last.load_after:,}", f"{100 * last.load_after / capacity:.0f} %"
        row = [escaped(last.of_route), f"{len(stops) - 2:,}", load, share]
        row += [length_text(last.cumulative_cost, unit), *times[k : k + 1]]
        rows.append([*row, str(last.arrival)] if clock else row)
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


def solve_figures(solved: Solved) -> dict[str, str]:
    """Return the key figures of a day as text, by name."""
    planned, search, instance, price = solved.planned, solved.search, solved.instance, solved.cost
    unit, demand, routes = planned.city.unit, int(instance.demands.sum()), len(solved.solution.routes)
    ordered = planned.day.demands
    figures = {
        "city": planned.city_name,
        "orders": f"{counted(planned.day.orders, 'order')} of {counted(len(ordered), 'customer')}, "
        f"total demand {sum(ordered.values()):,}",
        "routes": f"{routes:,}, vehicle capacity {instance.capacity:,}, average utilization "
        f"{100 * demand / (routes * instance.capacity):.1f} %",
        "cost": f"{length_text(price, unit)}, {measure(planned.city)}".removesuffix(", cost"),
        "found by": solved.found_by,
    }
    if service := planned.day.wishes.service_text:
        figures["service time"] = service
    if start := planned.spec.start_time:
        figures["start"] = start
    if left_out := solved.unserved:
        total = sum(each.demand for each in left_out)
        figures["left out"] = f"{len(left_out):,} of these customers, total demand {total:,}"
    if best := solved.best_known:
        figures["best known"] = f"{length_text(best, unit)}; our gap {gap(price, best):.2f} %"
    figures["time"] = f"{duration(search.start_up)} start-up, {duration(search.seconds)} search"
    return figures
