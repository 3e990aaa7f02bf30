"""Ways of a day's routes along the streets, if the costs of its city are those of roads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import numpy as np

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import DEPOT
from mcvrp.storage.cities import RoadFacts
from mcvrp.tasks.city.osrm_server import Osrm, osrm, osrm_again, way
from mcvrp.tasks.solve.day import Solved

_PATIENCE, _SECONDS = 5.0, 10.0  # in which a server has to answer once, and all routes have to be there
_THREADS = 4
_OFF = 0.05  # share by which the streets may cost more or less than the city's costs


def on_streets(solved: Solved, folder: Path) -> Solved:
    """Return ``solved`` with the ways of its routes, if its city has costs of roads.

    The server is that of the request or of the city's costs, or one of what ``folder`` has kept of their
    extract. If it fails or is slow, there are no ways, and the note has the reason.
    """
    planned = solved.planned
    facts, lonlat = planned.roads, planned.addresses.lonlat
    if facts is None or lonlat is None:
        return solved
    routes = [lonlat[[DEPOT, *route, DEPOT]] for route in solved.solution.routes]
    try:
        with _server(facts, planned.request.roads, folder) as server:
            quick = replace(server, patience=_PATIENCE)
            with ThreadPoolExecutor(_THREADS) as pool:
                ways = tuple(pool.map(lambda places: way(quick, places), routes, timeout=_SECONDS))
    except TimeoutError:
        return replace(solved, ways_note=_straight(f"the server took more than {_SECONDS:.0f} s"))
    except (McvrpError, OSError) as error:
        return replace(solved, ways_note=_straight(str(error)))
    except KeyboardInterrupt:  # the routes themselves are there
        return replace(solved, ways_note=_straight("interrupted"))
    costs = sum(float(np.sum(each.seconds if facts.by == "time" else each.metres)) for each in ways)
    if abs(costs - solved.cost) <= _OFF * solved.cost:
        return replace(solved, ways=ways)
    note = f"the streets of {server.url} are not those of the city's costs: the {facts.by} of the routes is "
    note += f"{costs:,.0f}, not {solved.cost:,.0f} {planned.city.unit}"
    return replace(solved, ways=ways, ways_note=note)


def _server(facts: RoadFacts, roads: str | None, folder: Path) -> AbstractContextManager[Osrm]:
    profile = facts.profile or "car"
    if roads is None and facts.extract is not None:
        return osrm_again(facts.extract, profile, folder)
    return osrm(roads or facts.source, profile, folder)


def _straight(reason: str) -> str:
    return f"routes are drawn as straight lines, not along streets: {reason}"
