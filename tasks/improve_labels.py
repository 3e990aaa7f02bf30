"""Labels that the model beats: samples of it, each polished, kept where they cost less than what is known.

Chunk by chunk: one that is in the store is done, with whatever it has improved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np

from model.problem import COST_TOLERANCE, City, cost
from storage import layout
from storage.labels import read_table, write_table
from storage.schemas import MODEL, Label, label_table, table_labels
from storage.store import Store
from tasks.hardware import processor
from tasks.progress import Progress
from tasks.solvers import Solver
from tasks.trial_labels import numbered
from tasks.trial_measured import Gains

CHUNK = 128  # labels that are decoded, and lost by a kill, together


def improved(
    store: Store,
    city: City,
    place: tuple[str, str],
    labels: Sequence[Label],
    solver: Solver,
    *,
    tries: int,
    seed: int,
) -> list[Label]:
    """Return ``labels``, by size, each replaced by what ``solver`` found where that is better.

    Parameters
    ----------
    place
        Model and round, in whose folder better labels are written.
    tries, seed
        As the solver's.
    """
    found: list[Label] = []
    with Progress("improve labels", len(labels), "labels") as progress:
        for n, start, chunk in _chunks(labels):
            path = layout.improved_chunk(*place, n, start, start + len(chunk))
            if not store.exists(path):
                better = list(_better(city, chunk, solver, tries, seed))
                absent = {label.index for label in chunk} - {label.index for label in better}
                write_table(store, path, city, place[1], n, label_table(better), sorted(absent))
            beaten = {label.index: label for label in table_labels(read_table(store, path), city.city_id)}
            found += [beaten.get(label.index, label) for label in chunk]
            progress.advance(len(chunk))
    return found


def beats(new: float, known: float) -> bool:
    """Return whether the cost ``new`` is lower than what is ``known`` by more than rounding."""
    return new < known - COST_TOLERANCE * max(1.0, known)


def gains(before: Sequence[Label], after: Sequence[Label]) -> Gains:
    """Return what became of the labels ``before``, one or more, in ``after``: the same in the same order."""
    known, new = (np.array([label.cost for label in labels]) for labels in (before, after))
    beaten = sum(beats(*pair) for pair in zip(new.tolist(), known.tolist(), strict=True))
    return Gains(len(known), beaten, float(known.mean()), float(new.mean()))


def _chunks(labels: Sequence[Label]) -> Iterator[tuple[int, int, list[Label]]]:
    """Yield size, first row and labels of each chunk; rows are numbered anew, size by size."""
    for n, group in groupby(labels, key=lambda label: label.instance.n):
        rows = numbered(group)
        for start in range(0, len(rows), CHUNK):
            yield n, start, rows[start : start + CHUNK]


def _better(city: City, chunk: Sequence[Label], solver: Solver, tries: int, seed: int) -> Iterator[Label]:
    """Yield a label for each of ``chunk`` that ``solver`` beats."""
    words, cpu = f"{tries} samples", processor()
    answers = solver.solve(city, [label.instance for label in chunk], samples=tries, seed=seed)
    for known, answer in zip(chunk, answers, strict=True):
        if answer.solution is None:
            continue
        price = cost(city, answer.solution)
        if beats(price, known.cost):
            yield replace(
                known,
                solution=answer.solution,
                cost=price,
                source=MODEL,
                solver=solver.label,
                version=solver.version,
                seed=seed,
                budget=words,
                runtime=answer.seconds,
                cpu=cpu,
            )
