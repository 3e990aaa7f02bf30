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
        other, the one that lacks most roads. The depot is one of them if that is so of most addresses.
        """
        missing = np.isnan(self.costs)
        missing |= missing.T
        out = missing[depot].copy()
        if 2 * out.sum() > len(out):
            return [depot]
        missing[out] = missing[:, out] = False
        while missing.any():
            worst = int(missing.sum(axis=0).argmax())
            out[worst] = True
            missing[worst] = missing[:, worst] = False
        return np.flatnonzero(out).tolist()


def road_costs(
    server: Osrm, lonlat: NDArray[np.float64], by: By, folder: Path, known: NDArray[np.float64] | None = None
) -> RoadCosts:
    """Return the costs between ``lonlat``, ``(N, 2)`` in degrees, in seconds or metres.

    ``folder`` keeps finished rows until all are there. ``known`` are the costs between the first of them,
    ``(K, K)``, which are not asked for again. McvrpError if the server does not answer with tables.
    """
    first = 0 if known is None else len(known)
    what = f"{server.extract or server.url} {by} {first}"
    kept = folder / "roads" / f"table-{hashlib.sha256(what.encode() + lonlat.round(6).tobytes()).hexdigest()[:16]}"
    kept.mkdir(parents=True, exist_ok=True)
    side = MOST_COORDINATES // 2
    while True:
        try:
            table = _Tables(server, lonlat, by).all(side, kept, first)
            break
        except TooManyPlaces:
            if side == 1:
                raise McvrpError(f"{server.url} gives no table of two places: raise its limit") from None
            side //= 2
    shutil.rmtree(kept)
    if known is not None:
        table.costs[:first, :first] = known
    return table


@dataclass(frozen=True)
class _Tables:
    server: Osrm
    lonlat: NDArray[np.float64]
    by: By

    def all(self, side: int, kept: Path, first: int) -> RoadCosts:
        """Return all costs but those between the ``first``, in blocks of ``side`` rows and columns."""
        count = len(self.lonlat)
        found = RoadCosts(np.full((count, count), np.nan), np.zeros(count))
        old, new = _slices(0, first, side), _slices(first, count, side)
        asked = [*((rows, new) for rows in old), *((rows, [*old, *new]) for rows in new)]
        total = sum(_length(rows) * sum(map(_length, columns)) for rows, columns in asked)
        with Progress("road costs", total, "pairs") as progress, ThreadPoolExecutor(_THREADS) as pool:
            for rows, columns in asked:
                file = kept / f"{rows.start}-{rows.stop}.npy"
                if file.exists():
                    table = np.load(file)
                else:
                    parts = list(pool.map(partial(self.block, rows), columns))
                    table = np.column_stack([*(costs for costs, _ in parts), parts[0][1]])
                    with (half := file.with_suffix(".half")).open("wb") as to:
                        np.save(to, table)
                    half.rename(file)
                found.costs[rows, columns[0].start :], found.off_road[rows] = table[:, :-1], table[:, -1]
                progress.update(progress.done + table[:, :-1].size)
        return found

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
        except (KeyError, TypeError, ValueError):
            said = answer.get("message", answer["code"])
            raise McvrpError(f"{self.server.url} gives no table ({shown(said)}): check the server") from None
        if costs.shape != (len(starts), len(ends)) or len(off_road) != len(starts):
            raise McvrpError(f"{self.server.url} gives a table of the wrong shape: check the server")
        return costs, off_road


def _slices(start: int, stop: int, side: int) -> list[slice]:
    return [slice(k, min(k + side, stop)) for k in range(start, stop, side)]


def _length(block: slice) -> int:
    return int(block.stop - block.start)
