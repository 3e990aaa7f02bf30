"""Rows of results: pieces of stored parts combined to the requested numbers of samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mcvrp.storage.benchmarks import PartRow, Routes


@dataclass(frozen=True)
class Piece:
    """Row of a stored part: the samples of one instance that follow the first ``after``."""

    after: int
    row: PartRow


def measured_row(pieces: Sequence[Piece], samples: tuple[int, ...]) -> PartRow:
    """Return the row of ``samples`` from one piece for each, all solved and timed separately.

    Costs are those of the largest number; the others are prefixes. If that was stored as part of a larger
    number, its routes are known only if its best solution is the best of all.
    """
    seconds = [
        piece.row.seconds[piece.row.samples.index(count)]
        for piece, count in zip(pieces, samples, strict=True)
    ]
    row = pieces[-1].row
    return replace(
        row,
        samples=samples,
        seconds=tuple(seconds),
        costs=row.costs[: samples[-1]],
        routes=_routes(row, samples[-1]),
        other_cores=_busiest(pieces),
    )


def grown_row(pieces: Sequence[Piece], samples: tuple[int, ...]) -> PartRow:
    """Return the row of ``samples`` from consecutive ``pieces``.

    Times add up. At a number of samples that was not measured, the time is interpolated between its
    neighbours.
    """
    counts, seconds = [0], [0.0]
    costs: list[float] = []
    for piece in pieces:
        row, before = piece.row, seconds[-1]
        counts += row.samples
        seconds += [before + each for each in row.seconds]
        costs += row.costs or (float("inf"),) * (row.samples[-1] - piece.after)
    best = int(np.argmin(costs[: samples[-1]]))
    holder = next(piece for piece in pieces if piece.row.samples[-1] > best)
    last = pieces[-1].row
    solved = costs[best] < float("inf")
    return replace(
        last,
        samples=samples,
        seconds=tuple(np.interp(samples, counts, seconds).tolist()),
        costs=tuple(costs[: samples[-1]]) if solved else (),
        routes=_routes(holder.row, samples[-1] - holder.after) if solved else None,
        workers=max(piece.row.workers for piece in pieces),
        failure=None if solved else last.failure,
        other_cores=_busiest(pieces),
    )


def _routes(row: PartRow, samples: int) -> Routes | None:
    """Return the stored solution if it is among the first ``samples``."""
    return row.routes if row.costs and int(np.argmin(row.costs)) < samples else None


def _busiest(pieces: Sequence[Piece]) -> float | None:
    recorded = [piece.row.other_cores for piece in pieces if piece.row.other_cores is not None]
    return max(recorded, default=None)
