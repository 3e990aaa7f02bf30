"""Travel costs of a city along its roads, by the tables of an OSRM server, which are asked for in blocks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mcvrp.model.errors import McvrpError, shown
from mcvrp.shared_array import shared_array
from mcvrp.tasks.city.osrm import Osrm
from mcvrp.tasks.support.progress import Progress

By = Literal["time", "distance"]
UNITS: dict[By, str] = {"time": "s", "distance": "m"}
_THREADS = 2  # the server computes a table with one
_OFF = 0.05  # share by which a server may differ from a city that it extends: roads change


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
