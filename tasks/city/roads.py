"""Travel costs of a city along its roads, by the tables of an OSRM server.

They are asked for in blocks. The rows of finished blocks are kept in a folder, so that an import that was
killed goes on from there.
"""

from __future__ import annotations

import hashlib
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mcvrp.model.errors import McvrpError, shown
from mcvrp.tasks.city.osrm import MOST_COORDINATES, Osrm, TooManyPlaces
from mcvrp.tasks.support.progress import Progress

By = Literal["time", "distance"]
UNITS: dict[By, str] = {"time": "s", "distance": "m"}
_THREADS = 2  # the server computes a table with one


@dataclass(frozen=True)
class RoadCosts:
    """Costs between N addresses, float64 ``(N, N)``, NaN without a road; metres to the road ``(N,)``."""

    costs: NDArray[np.float64]
    off_road: NDArray[np.float64]

    @property
    def one_way(self) -> float:
        """Share of the pairs whose costs there and back differ by more than a tenth."""
        upper = np.triu_indices(len(self.costs), 1)
        there, back = self.costs[upper], self.costs.T[upper]
        return float(np.mean(np.abs(there - back) > 0.1 * np.fmax(there, back))) if len(there) else 0.0

    def cut_off(self, depot: int) -> list[int]:
        """Return the addresses without which there are roads between all others, ascending.

        They are those that the depot does not reach or that do not reach it, and of the others, one after the
        other, the one that lacks most roads. McvrpError if most addresses are cut off: it is the depot then.
        """
        missing = np.isnan(self.costs)
        missing |= missing.T
        out = missing[depot].copy()
        if 2 * out.sum() > len(out):
            raise McvrpError("the depot has no road to most addresses: correct its place, or the profile")
        missing[out] = missing[:, out] = False
        while missing.any():
            worst = int(missing.sum(axis=0).argmax())
            out[worst] = True
            missing[worst] = missing[:, worst] = False
        return np.flatnonzero(out).tolist()


def road_costs(server: Osrm, lonlat: NDArray[np.float64], by: By, folder: Path) -> RoadCosts:
    """Return the costs between ``lonlat``, ``(N, 2)`` in degrees, in seconds or metres.

    ``folder`` keeps finished rows until all are there. McvrpError if the server does not answer with tables.
    """
    source = f"{server.extract or server.url} {by}"
    key = hashlib.sha256(source.encode() + lonlat.round(6).tobytes()).hexdigest()[:16]
    kept = folder / f"table-{key}"
    kept.mkdir(parents=True, exist_ok=True)
    side = MOST_COORDINATES // 2
    while True:
        try:
            found = _rows(server, lonlat, by, side, kept)
            break
        except TooManyPlaces:
            if side == 1:
                raise McvrpError(f"{server.url} gives no table of two places: raise its limit") from None
            side = side // 2
    shutil.rmtree(kept)
    return found


def _rows(server: Osrm, lonlat: NDArray[np.float64], by: By, side: int, kept: Path) -> RoadCosts:
    count = len(lonlat)
    blocks = [slice(*ends) for ends in pairwise([*range(0, count, side), count])]
    costs, off_road = np.empty((count, count)), np.empty(count)
    done = 0
    with (
        Progress("road costs", count**2, "pairs") as progress,
        ThreadPoolExecutor(_THREADS) as pool,
    ):
        for rows in blocks:
            file = kept / f"{rows.start}-{rows.stop}.npy"
            if file.exists():
                table = np.load(file)
            else:
                asked = pool.map(partial(_table, server, lonlat, by, rows), blocks)
                parts = list(asked)
                table = np.hstack([*(part for part, _ in parts), parts[0][1][:, None]])
                with (partial_file := file.with_suffix(".part")).open("wb") as to:
                    np.save(to, table)
                partial_file.rename(file)
            costs[rows], off_road[rows] = table[:, :-1], table[:, -1]
            done += len(table) * count
            progress.update(done)
    return RoadCosts(costs, off_road)


def _table(
    server: Osrm, lonlat: NDArray[np.float64], by: By, rows: slice, columns: slice
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the costs from ``rows`` to ``columns``, and the metres from ``rows`` to their roads."""
    starts, ends = lonlat[rows], lonlat[columns]
    places, first = (starts, 0) if rows == columns else (np.vstack([starts, ends]), len(starts))
    numbers = ";".join(map(str, range(len(starts)))), ";".join(str(first + k) for k in range(len(ends)))
    kind = "duration" if by == "time" else "distance"
    options = {"annotations": kind, "sources": numbers[0], "destinations": numbers[1]}
    if len(places) == 1:  # OSRM wants two
        places, options = np.vstack([places, places]), {**options, "sources": "0", "destinations": "1"}
    answer = server.ask("table", places, **options)
    try:
        costs = np.array(answer[f"{kind}s"], dtype=np.float64)  # null is NaN
        off_road = np.array([place["distance"] for place in answer["sources"]], dtype=np.float64)
    except (KeyError, TypeError, ValueError):
        said = answer.get("message", answer["code"])
        raise McvrpError(f"{server.url} gives no table ({shown(said)}): check the server") from None
    if costs.shape != (len(starts), len(ends)):
        raise McvrpError(f"{server.url} gives a table of the wrong shape: check the server")
    return costs, off_road
