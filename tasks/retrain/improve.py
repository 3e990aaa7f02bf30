"""The improvement loop: the champion improves labels by sampling, and is fine-tuned on the result.

It is the "positive feedback loop" of the paper's conclusion. A loop is named by a hash of its spec and
labels. Completed rounds are skipped, an interrupted one is resumed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import COST_TOLERANCE, City, cost
from mcvrp.storage import layout
from mcvrp.storage.cities import StoredCity
from mcvrp.storage.labels.label_files import label_file, read_table
from mcvrp.storage.labels.schema import MODEL, Label, label_table, table_labels
from mcvrp.storage.layout import ROUND
from mcvrp.storage.models.models import ModelCard
from mcvrp.storage.store.store import Store
from mcvrp.storage.trials import TrialRecord
from mcvrp.tasks.retrain.card import Gains, TrialMetrics, read_metrics
from mcvrp.tasks.retrain.compare import sampler
from mcvrp.tasks.retrain.labels import drawn, numbered, write_mix
from mcvrp.tasks.retrain.spec import ImproveSpec, TrialSpec
from mcvrp.tasks.retrain.trial import Trial, TrialContext, run_trial, trial_context
from mcvrp.tasks.solvers.solver import Solver
from mcvrp.tasks.support.machine import local_cores, processor
from mcvrp.tasks.support.pool import Pool
from mcvrp.tasks.support.progress import Progress
from mcvrp.tasks.train.phases import Launcher

CHUNK = 128  # labels per file: decoded together, and lost together if the process is killed


@dataclass(frozen=True)
class Round:
    """Result of a round: decision, metrics and the ``champion``'s version now.

    ``new`` is False if the round was completed before.
    """

    record: TrialRecord
    measured: TrialMetrics
    champion: int
    new: bool = True


def run_round(
    store: Store,
    city: StoredCity,
    spec: ImproveSpec,
    number: int,
    cache: Path,
    launch: Launcher | None = None,
) -> Round:
    """Run or resume round ``number`` of the loop ``spec``.

    Labels are sampled at random, each at its best known cost. A solution of the champion (see ``spec.by``)
    replaces a label if it costs less; the challenger is fine-tuned on all of them.
    ``cache`` and ``launch`` are those of `tasks.train.phases.train`. Raises McvrpError if there are no
    labels, and as `trial_context` and `run_trial`.
    """
    with trial_context(store, city, spec) as context:
        settings = spec.model_dump_json(exclude={"rounds", "ranks"})
        loop = hashlib.sha256(f"{context.old_labels.hash}\n{settings}".encode()).hexdigest()[:12]
        for record in context.rounds:
            if (record.loop, record.number) == (loop, number):
                measured = read_metrics(store, spec.model, record.name)
                return Round(record, measured, context.champion.version, new=False)
        trial = _trial(spec, context, loop, number)
        record, measured = run_trial(spec, context, trial, cache, launch)
        return Round(record, measured, record.now)


def _trial(spec: ImproveSpec, context: TrialContext, loop: str, number: int) -> Trial:
    store, city, name = context.store, context.city, context.trial_name(ROUND, [loop, str(number)])
    seed = spec.seed + number  # other labels in each round
    labels = list(drawn(store, context.old, spec.count, (ROUND, str(seed)), context.improved_labels()))
    if not labels:
        raise McvrpError(
            f"dataset {context.old!r} in {store.url()} has no labels to improve: run mcvrp label with its "
            "preset"
        )
    better = by_champion(context, spec, name, labels, by=spec.by, tries=spec.tries, seed=seed)
    mix = write_mix(store, city, name, [context.old_labels, context.champion.as_parent], better)
    return Trial(name, number, mix, loop=loop, gains=gains(labels, better))


def by_champion(
    context: TrialContext,
    spec: TrialSpec,
    trial: str,
    labels: Sequence[Label],
    *,
    by: Literal["local-search", "beam"],
    tries: int,
    seed: int,
) -> list[Label]:
    """Return ``labels`` in their order, those that the champion improves replaced: see `improved`."""
    with Pool(local_cores()) as pool:
        solver = _solver(context.store, context.champion, spec.p, by, tries, pool)
        return improved(
            context.store, context.city, (spec.model, trial), labels, solver, tries=tries, seed=seed
        )


def _solver(store: Store, champion: ModelCard, p: float, by: str, tries: int, pool: Pool) -> Solver:
    from mcvrp.model.strategies import Beam  # these import torch
    from mcvrp.tasks.solvers.local_search import Polished

    samples = sampler(store, champion, p, tries, pool)
    if by == "beam":  # of the city as it is, not rotated
        return replace(samples, strategy=Beam(tries), rotations=1)
    return Polished(samples)


def improved(
    store: Store,
    city: City,
    trial: tuple[str, str],
    labels: Sequence[Label],
    solver: Solver,
    *,
    tries: int,
    seed: int,
) -> list[Label]:
    """Return ``labels`` with improvements by ``solver``, stored with ``trial`` (model, night or round)."""
    result = list(labels)
    with Progress("improve labels", len(labels), "labels") as progress:
        for n, start, places in _chunks(labels):
            chunk = numbered((labels[place] for place in places), start)
            path = layout.improved_chunk(*trial, n, start, start + len(chunk))
            if not store.exists(path):
                better = list(_better(city, chunk, solver, tries, seed))
                # rows without an improvement, listed so that they are not tried again
                kept = {label.index for label in chunk} - {label.index for label in better}
                absent = dict.fromkeys(sorted(kept), "no better routes were found")
                store.put_new(path, label_file(city, trial[1], n, label_table(better), absent))
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


def _better(city: City, chunk: Sequence[Label], solver: Solver, tries: int, seed: int) -> Iterator[Label]:
    budget, cpu = f"{tries} samples", processor()
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
                budget=budget,
                runtime=answer.seconds,
                cpu=cpu,
            )
