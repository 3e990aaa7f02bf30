"""Labels that the champion's beam search improves, stored file by file: an interrupted night resumes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from mcvrp.model.problem import COST_TOLERANCE, cost
from mcvrp.storage import layout
from mcvrp.storage.labels.label_files import label_file, read_table
from mcvrp.storage.labels.schema import MODEL, Label, label_table, table_labels
from mcvrp.tasks.retrain.card import Gains
from mcvrp.tasks.retrain.compare import sampler
from mcvrp.tasks.retrain.labels import numbered
from mcvrp.tasks.retrain.trial import TrialContext
from mcvrp.tasks.solvers.solver import Solver
from mcvrp.tasks.support.machine import local_cores, processor
from mcvrp.tasks.support.pool import Pool
from mcvrp.tasks.support.progress import Progress

CHUNK = 128  # labels per file: decoded together, and lost together if the process is killed


def by_beam(context: TrialContext, night: str, labels: Sequence[Label]) -> list[Label]:
    """Return ``labels`` in their order, those that the champion's beam improves replaced: see `improved`."""
    from mcvrp.model.strategies import Beam  # imports torch

    spec = context.spec
    with Pool(local_cores()) as pool:
        samples = sampler(context.store, context.champion, spec.p, spec.beam, pool)
        # of the city as it is, not rotated
        return improved(context, night, labels, replace(samples, strategy=Beam(spec.beam), rotations=1))


def improved(context: TrialContext, night: str, labels: Sequence[Label], solver: Solver) -> list[Label]:
    """Return ``labels`` with improvements by ``solver``, which are stored with the ``night``."""
    store, city, result = context.store, context.city, list(labels)
    with Progress("improve labels", len(labels), "labels") as progress:
        for n, start, places in _chunks(labels):
            chunk = numbered((labels[place] for place in places), start)
            path = layout.improved_chunk(context.spec.model, night, n, start, start + len(chunk))
            if not store.exists(path):
                better = list(_better(context, chunk, solver))
                # rows without an improvement, listed so that they are not tried again
                kept = {label.index for label in chunk} - {label.index for label in better}
                absent = dict.fromkeys(sorted(kept), "no better routes were found")
                store.put_new(path, label_file(city, night, n, label_table(better), absent))
            stored = {label.index: label for label in table_labels(read_table(store, path), city.city_id)}
            for place, label in zip(places, chunk, strict=True):
                result[place] = stored.get(label.index, labels[place])
            progress.advance(len(chunk))
    return result


def beats(new: float, known: float) -> bool:
    """Return whether the cost ``new`` is below ``known`` by more than rounding."""
    return new < known * (1 - COST_TOLERANCE)


def gains(before: Sequence[Label], after: Sequence[Label]) -> Gains:
    """Return the improvement from ``before`` to ``after``: equal instances in equal order, at least one."""
    old, new = (np.array([label.cost for label in labels]) for labels in (before, after))
    count = sum(beats(*costs) for costs in zip(new.tolist(), old.tolist(), strict=True))
    return Gains(len(old), count, float(old.mean()), float(new.mean()))


def _chunks(labels: Sequence[Label]) -> Iterator[tuple[int, int, list[int]]]:
    """Yield size, first row and places in ``labels`` of each chunk; rows count from 0 within a size."""
    by_size: dict[int, list[int]] = {}
    for place, label in enumerate(labels):
        by_size.setdefault(label.instance.n, []).append(place)
    for n, places in by_size.items():
        for start in range(0, len(places), CHUNK):
            yield n, start, places[start : start + CHUNK]


def _better(context: TrialContext, chunk: Sequence[Label], solver: Solver) -> Iterator[Label]:
    city, width, seed, cpu = context.city, context.spec.beam, context.spec.seed, processor()
    answers = solver.solve(city, [label.instance for label in chunk], samples=width, seed=seed)
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
                budget=f"{width} samples",
                runtime=answer.seconds,
                cpu=cpu,
            )
