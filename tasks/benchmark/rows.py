"""Rows of results: what stored parts have of an instance, put together for the samples asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mcvrp.storage.benchmarks import PartRow, Routes


@dataclass(frozen=True)
class Piece:
    """Share of a stored part in an instance: its samples ``after`` so many."""

    after: int
    row: PartRow


def measured_row(pieces: Sequence[Piece], samples: tuple[int, ...]) -> PartRow:
    """Return the row of ``samples``, one piece for each in order, of which each was solved and timed alone.

    Costs are those of the largest number, of which the others are prefixes. Where that was stored
    with a larger one, its best solution is there only if it is the best of all.
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
    """Return the row of ``samples`` from ``pieces`` that follow each other, the samples one after the other.

    Times add up; at a number that was not asked for when it ran, the time between its neighbours is
    shared evenly.
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
    known = [piece.row.other_cores for piece in pieces if piece.row.other_cores is not None]
    return max(known, default=None)
