"""Travel costs of a city along its roads, by the tables of an OSRM server.

They are asked for in blocks. The rows of finished blocks are kept in a folder until the city is stored, so
that an import that was killed goes on from there, and a plan's costs are not asked for again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mcvrp.model.errors import McvrpError, shown
from mcvrp.shared_array import shared_array
from mcvrp.tasks.city.osrm import MOST_COORDINATES, Osrm, TooManyPlaces
from mcvrp.tasks.support.progress import Progress

By = Literal["time", "distance"]
UNITS: dict[By, str] = {"time": "s", "distance": "m"}
_THREADS = 2  # the server computes a table with one
_OFF = 0.05  # share by which a server may differ from a city that it extends: roads change
_LONGEST = 7 * 86_400.0  # seconds that finished rows are kept: roads change


@dataclass(frozen=True)
class RoadCosts:
    """Costs between N addresses, float64 ``(N, N)``, NaN without a road; metres to the road ``(N,)``.

    ``rows`` is the folder of the finished rows, to be removed once the costs are stored.
    """

    costs: NDArray[np.float64]
    off_road: NDArray[np.float64]
    rows: Path


def road_costs(
    server: Osrm, lonlat: NDArray[np.float64], by: By, folder: Path, known: NDArray[np.float64] | None = None
) -> RoadCosts:
    """Return the costs between ``lonlat``, ``(N, 2)`` in degrees, in seconds or metres.

    ``folder`` keeps finished rows. ``known`` are the costs between the first of them, ``(K, K)``, which are
    not asked for again. McvrpError if the server does not answer with tables, or has clearly other roads.
    """
    first = 0 if known is None else len(known)
    what = f"{server.graph or server.url} {by} {first}".encode() + lonlat.round(6).tobytes()
    kept = folder / "roads" / f"table-{hashlib.sha256(what).hexdigest()[:16]}"
    for table in kept.parent.glob("table-*"):
        if time.time() - table.stat().st_mtime > _LONGEST:
            shutil.rmtree(table, ignore_errors=True)
    side = MOST_COORDINATES // 2
    while True:
        try:
            found = _Tables(server, lonlat, by).all(side, kept, first)
            break
        except TooManyPlaces:
            if side == 1:
                raise McvrpError(f"{server.url} gives no table of two places: raise its limit") from None
            side //= 2
    if known is not None:
        found.costs[:first, :first] = known
        if server.graph is None:  # of an extract they are the same
            some = slice(0, min(first, side))
            now, was = _Tables(server, lonlat, by).block(some, some)[0].sum(), known[some, some].sum()
            if not abs(now - was) <= _OFF * was:
                raise McvrpError(
                    f"{server.url} has other roads than those of the city: the {by} between its first "
                    f"addresses is {now:,.0f}, not {was:,.0f} {UNITS[by]} in all"
                )
    return found


@dataclass(frozen=True)
class _Tables:
    server: Osrm
    lonlat: NDArray[np.float64]
    by: By

    def all(self, side: int, kept: Path, first: int) -> RoadCosts:
        """Return all costs but those between the ``first``, in blocks of ``side`` rows and columns."""
        count = len(self.lonlat)
        found = RoadCosts(shared_array((count, count)), np.zeros(count), kept)
        old, new = _slices(0, first, side), _slices(first, count, side)
        asked = [*((rows, new) for rows in old), *((rows, [*old, *new]) for rows in new)]
        total = sum(_length(rows) * sum(map(_length, columns)) for rows, columns in asked)
        with Progress("road costs", total, "pairs") as progress, ThreadPoolExecutor(_THREADS) as pool:
            for rows, columns in asked:
                file = kept / f"{rows.start}-{rows.stop}.npz"
                table = self.finished(file, rows, columns[0])
                if table is None:
                    parts = list(pool.map(partial(self.block, rows), columns))
                    table = np.column_stack([*(costs for costs, _ in parts), parts[0][1]])
                    kept.mkdir(parents=True, exist_ok=True)  # another import of the same may have removed it
                    with (half := file.with_suffix(f".{os.getpid()}")).open("wb") as to:
                        np.savez(to, table=table)
                    half.rename(file)
                found.costs[rows, columns[0].start :], found.off_road[rows] = table[:, :-1], table[:, -1]
                progress.update(progress.done + table[:, :-1].size)
        return found

    def finished(self, file: Path, rows: slice, columns: slice) -> NDArray[np.float64] | None:
        """Return the ``rows`` in ``file``; None if there are none, or they are damaged or of other roads.

        A server at an address may have been started again with others: the first row is asked for again.
        """
        try:
            with np.load(file, allow_pickle=False) as opened:  # checks its checksum
                table: NDArray[np.float64] = opened["table"]
        except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile):
            return None
        if self.server.graph is None:
            costs, _ = self.block(slice(rows.start, rows.start + 1), columns)
            if not np.array_equal(costs[0], table[0, : _length(columns)], equal_nan=True):
                return None
        return table

    def block(self, rows: slice, columns: slice) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the costs from ``rows`` to ``columns``, and the metres from ``rows`` to their roads."""
        starts, ends = self.lonlat[rows], self.lonlat[columns]
        kind = "duration" if self.by == "time" else "distance"
        answer = self.server.ask(
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
                answer = self.server.ask("route", ends_of, overview="false", continue_straight="false")
                costs[a, b] = max(0.0, float(answer["routes"][0][kind]))
        except (KeyError, IndexError, TypeError, ValueError):
            said = answer.get("message", answer["code"])
            raise McvrpError(f"{self.server.url} gives no table ({shown(said)}): check the server") from None
        if costs.shape != (len(starts), len(ends)) or len(off_road) != len(starts):
            raise McvrpError(f"{self.server.url} gives a table of the wrong shape: check the server")
        return costs, off_road


def _slices(start: int, stop: int, side: int) -> list[slice]:
    return [slice(k, min(k + side, stop)) for k in range(start, stop, side)]


def _length(block: slice) -> int:
    return int(block.stop - block.start)
