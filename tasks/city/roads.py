"""Addresses on the roads: their travel costs, by the tables of an OSRM server, asked for in blocks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mcvrp.model.errors import McvrpError, reason, shown
from mcvrp.model.problem import DEPOT
from mcvrp.shared_array import shared_array
from mcvrp.storage.cities import RoadFacts, StoredCity
from mcvrp.tasks.city.addresses import AddressTable
from mcvrp.tasks.city.osrm_server import Osrm, osrm, profile_text, sha256_of
from mcvrp.tasks.city.spec import RoadsSpec
from mcvrp.tasks.files.file_bytes import Faults, local_path
from mcvrp.tasks.support.progress import Progress
from mcvrp.tasks.support.text import listed

By = Literal["time", "distance"]
UNITS: dict[By, str] = {"time": "s", "distance": "m"}
_THREADS = 2  # the server computes a table with one
_OFF = 0.05  # share by which a server may differ from a city that it extends: roads change
_SNAP = 300.0  # metres


@dataclass(frozen=True, eq=False)
class OnRoads:
    """Addresses ``read``, without those that are left out, and the ``costs`` between all of the city."""

    read: AddressTable
    costs: NDArray[np.float64]
    facts: RoadFacts

    @property
    def notes(self) -> tuple[str, ...]:
        if not (out := self.facts.left_out):
            return ()
        return (f"{len(out):,} addresses without a road are left out: {listed(out)}",)


def on_roads(
    read: AddressTable,
    roads: RoadsSpec,
    cache: Path | None,
    parent: StoredCity | None = None,
    stored: StoredCity | None = None,
) -> OnRoads:
    """Return the costs between ``read``, the depot first; with ``parent`` between its addresses and ``read``.

    Costs within ``parent`` are its own. If ``stored``, the city of this name, has the same addresses and
    roads, its costs are returned. ``cache`` keeps what is made of extracts. McvrpError naming all addresses
    that are too far from a road or cut off, unless they may be left out; the depot may not.
    """
    if not read.degrees:
        raise McvrpError(f"{read.name} has x and y, but roads need degrees: give lat and lon")
    old, ids, lonlat, known, facts = 0, read.ids, read.places, None, _facts(roads, parent)
    if parent is not None:
        assert parent.addresses.lonlat is not None  # as ``read`` has degrees
        old, ids, known = len(parent.addresses.ids), parent.addresses.ids + ids, parent.city.matrix
        lonlat = np.vstack([parent.addresses.lonlat, lonlat])
    by_id = dict(zip(ids, map(tuple, lonlat.tolist()), strict=True))
    if stored and stored.roads and replace(stored.roads, left_out={}) == facts:
        left_out = stored.roads.left_out  # who has moved since is asked for
        out = np.array([left_out.get(name) == place for name, place in by_id.items()])
        same = stored.addresses.ids == tuple(np.array(ids)[~out]) and (roads.leave_out or not out.any())
        costs, places = stored.city.matrix, stored.addresses.lonlat
        of_parent = parent is None or stored.city.accepts(parent.city.city_id)
        same = same and of_parent and places is not None and np.array_equal(places, lonlat[~out])
        if same and costs is not None:
            return OnRoads(read.taking(np.flatnonzero(~out[old:])), costs, stored.roads)
    if cache is None:
        raise McvrpError(f"{read.name} needs costs along roads: import it first (mcvrp city import)")
    try:
        with osrm(roads.source, roads.profile or facts.profile or "car", cache) as server:
            costs, off_road = road_costs(server, lonlat, facts.by, known)
    except OSError as error:
        raise McvrpError(
            f"the cache of roads in {cache} cannot be written ({reason(error)}): free space there, or set "
            "MCVRP_CACHE to another folder"
        ) from error
    far = off_road > facts.snap
    far[:old] = False  # they are in the city
    out = far | cut_off(costs, max(1, old), far)
    faults = Faults(read.name)
    for k in np.flatnonzero(out):
        if roads.leave_out and k != DEPOT:
            continue
        why = "has no road to or from the depot or other addresses"
        if far[k]:
            why = f"is {off_road[k]:,.0f} m from the nearest road (limit: {facts.snap:g} m)"
        faults.at(read.rows[k - old], f"{shown(ids[k])} {why}")
    if out[1:].any() and not roads.leave_out:
        faults.add("addresses have no road: correct them, or leave them out (--leave-out)")
    faults.check()
    kept = np.flatnonzero(~out)
    costs = costs[np.ix_(kept, kept)] if out.any() else costs
    costs.setflags(write=False)
    facts = replace(facts, left_out={ids[k]: by_id[ids[k]] for k in np.flatnonzero(out)})
    return OnRoads(read.taking(kept[old:] - old), costs, facts)


def cut_off(costs: NDArray[np.float64], fixed: int, far: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return a mask of addresses without which there are roads between all others but those that are ``far``.

    They are those without a road to or from the ``fixed`` first ones, and of the others those without a road
    to or from one of these. If ``fixed`` is 1 and that is so of most addresses, it is the depot alone.
    """
    missing = np.isnan(costs)
    missing |= missing.T
    missing[far] = missing[:, far] = False
    out = np.asarray(missing[:fixed].any(axis=0))
    out[:fixed] = False
    if fixed == 1 and 2 * out.sum() > len(out):
        return np.arange(len(out)) == DEPOT
    missing[out] = missing[:, out] = False
    return out | missing.any(axis=0)  # seldom any: roads lead by the depot


def _facts(roads: RoadsSpec, parent: StoredCity | None) -> RoadFacts:
    """Return what is known before anybody is asked; McvrpError if it is not as in ``parent``."""
    inherited = parent.roads if parent else None
    profile = extract = None
    if not roads.is_server:
        profile = roads.profile or (inherited.profile if inherited else None) or "car"
        profile = profile_text(profile)
        extract = sha256_of(local_path(roads.source))
    facts = RoadFacts(
        source=roads.source.rstrip("/") if roads.is_server else Path(roads.source).name,
        by=roads.by or (inherited.by if inherited else "time"),
        profile=profile,
        extract=extract,
        snap=roads.snap or (inherited.snap if inherited else _SNAP),
    )
    if parent is not None and inherited is not None:
        same = [(each.by, each.profile, each.extract) for each in (facts, inherited)]
        if same[0] != same[1]:
            raise McvrpError(
                f"the costs of city {parent.name!r} are of other roads ({inherited.text}; now: "
                f"{facts.text}): give the same, or import a new city"
            )
    return facts


def road_costs(
    server: Osrm, lonlat: NDArray[np.float64], by: By, known: NDArray[np.float64] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the costs between ``lonlat``, ``(N, 2)`` in degrees, and the metres from each to its road.

    The costs, in seconds or metres, are ``(N, N)``, NaN without a road, the metres ``(N,)``. ``known`` are
    the costs between the first of them, ``(K, K)``, which are not asked for again. McvrpError if the server
    does not answer with tables, or has clearly other roads.
    """
    count, first, side = len(lonlat), 0 if known is None else len(known), server.most // 2
    costs, off_road = shared_array((count, count)), np.zeros(count)
    if known is not None:
        costs[:first, :first] = known
        if server.extract is None:  # of an extract they are the same
            some = slice(0, min(first, side))
            now, was = _block(server, by, lonlat[some], lonlat[some])[0].sum(), known[some, some].sum()
            if not abs(now - was) <= _OFF * was:
                raise McvrpError(
                    f"{server.url} has other roads than those of the city: the {by} between its first "
                    f"addresses is {now:,.0f}, not {was:,.0f} {UNITS[by]} in all"
                )
    old, new = _slices(0, first, side), _slices(first, count, side)
    with (
        Progress("road costs", count**2 - first**2, "pairs") as progress,
        ThreadPoolExecutor(_THREADS) as pool,
    ):
        for rows in [*old, *new]:
            columns = new if rows in old else [*old, *new]
            ask = partial(_block, server, by, lonlat[rows])
            tables = pool.map(ask, [lonlat[at] for at in columns])
            for at, (table, metres) in zip(columns, tables, strict=True):
                costs[rows, at], off_road[rows] = table, metres
                progress.update(progress.done + table.size)
    return costs, off_road


def _block(
    server: Osrm, by: By, starts: NDArray[np.float64], ends: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the costs from ``starts`` to ``ends``, and the metres from ``starts`` to their roads."""
    kind = "duration" if by == "time" else "distance"
    answer = server.ask(
        "table",
        np.vstack([starts, ends]),
        annotations=kind,
        sources=";".join(map(str, range(len(starts)))),
        destinations=";".join(str(len(starts) + k) for k in range(len(ends))),
    )
    try:
        costs = np.array(answer[f"{kind}s"], dtype=np.float64)  # null is NaN
        off_road = np.array([place["distance"] for place in answer["sources"]], dtype=np.float64)
        for a, b in np.argwhere(costs < 0):  # of two places on one street, by an error of OSRM's tables
            ends_of = np.vstack([starts[a], ends[b]])
            answer = server.ask("route", ends_of, overview="false", continue_straight="false")
            costs[a, b] = max(0.0, float(answer["routes"][0][kind]))
    except (KeyError, IndexError, TypeError, ValueError):
        said = answer.get("message", answer["code"])
        raise McvrpError(f"{server.url} gives no table ({shown(said)}): check the server") from None
    if costs.shape != (len(starts), len(ends)) or len(off_road) != len(starts):
        raise McvrpError(f"{server.url} gives a table of the wrong shape: check the server")
    return costs, off_road


def _slices(start: int, stop: int, side: int) -> list[slice]:
    return [slice(k, min(k + side, stop)) for k in range(start, stop, side)]
