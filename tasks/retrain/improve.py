"""The improvement loop: the champion beats labels where it can, and is tuned on what it has found.

It is the "positive feedback loop" that the paper's conclusion hopes for (Sec. "Conclusion").
A loop is named by what is asked for and by its labels, its rounds are counted from 1: a round that is done
is not done again, one that was stopped goes on, and more rounds follow where the last has ended.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import numpy as np

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import COST_TOLERANCE, City, cost
from mcvrp.storage import layout
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.labels.label_files import read_table, write_table
from mcvrp.storage.labels.schema import MODEL, Label, label_table, table_labels
from mcvrp.storage.layout import ROUND
from mcvrp.storage.store.store import Store
from mcvrp.storage.trials import TrialRecord
from mcvrp.tasks.retrain.compare import sampler
from mcvrp.tasks.retrain.labels import drawn, numbered, write_mix
from mcvrp.tasks.retrain.measured import Gains, Measured, read_measured
from mcvrp.tasks.retrain.spec import ImproveSpec
from mcvrp.tasks.retrain.trial import Trial, TrialContext, run_trial, trial_context
from mcvrp.tasks.solvers.solver import Solver
from mcvrp.tasks.support.machine import local_cores, processor
from mcvrp.tasks.support.pool import Pool
from mcvrp.tasks.support.progress import Progress
from mcvrp.tasks.train.phases import Launcher

CHUNK = 128  # labels that are decoded, and lost by a kill, together


@dataclass(frozen=True)
class Round:
    """Outcome of a round: decision, figures, and whether it is ``new``: done by this call."""

    record: TrialRecord
    measured: Measured
    new: bool = True


def run_round(
    store: Store, city: City, spec: ImproveSpec, number: int, cache: Path, launch: Launcher | None = None
) -> Round:
    """Do round ``number`` of the loop ``spec``, or what is left of it.

    Labels are drawn at random and taken as the best that rounds before have made of them. Where a
    polished sample of the champion costs less, it takes the label's place; tuned on all of them, the
    challenger is compared with the champion as at night, and promoted or not.

    Parameters
    ----------
    cache
        A folder of this machine for labels as training reads them.
    launch
        As in `tasks.train.phases.train`.

    Raises
    ------
    McvrpError
        If there is no champion or it is another city's, there are no labels, the model is being
        retrained by somebody else, or the champion was moved meanwhile.
    IncompleteError
        If training was cut off; running again goes on.
    """
    with trial_context(store, city, spec) as context:
        loop = _loop(store, spec, context)
        for record in context.rounds:
            if (record.loop, record.number) == (loop, number):
                return Round(record, read_measured(store, spec.model, record.name), new=False)
        name = context.name(store, ROUND, [loop, str(number)])
        seed = spec.seed + number  # each round draws other labels
        labels = list(drawn(store, context.old, spec.count, (ROUND, str(seed)), context.known(store)))
        if not labels:
            raise McvrpError(
                f"there are no labels of dataset {context.old!r} in {store.url()} to improve: run mcvrp label"
            )
        from mcvrp.tasks.solvers.local_search import Polished  # brings torch along

        with Pool(local_cores()) as pool:
            solver = Polished(sampler(store, context.champion, spec.p, spec.tries, pool))
            better = improved(store, city, (spec.model, name), labels, solver, tries=spec.tries, seed=seed)
        trial = Trial(
            name=name,
            number=number,
            mix=write_mix(store, city, name, better),
            loop=loop,
            gains=gains(labels, better),
        )
        return Round(*run_trial(store, city, spec, context, trial, cache, launch))


def _loop(store: Store, spec: ImproveSpec, context: TrialContext) -> str:
    asked = spec.model_dump_json(exclude={"rounds", "ranks"})
    old = Dataset.open(store, context.old).fingerprint()
    return hashlib.sha256(f"{old}\n{asked}".encode()).hexdigest()[:12]


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
                # labels that were not beaten: the file says that they were tried
                absent = {label.index for label in chunk} - {label.index for label in better}
                write_table(store, path, city, place[1], n, label_table(better), sorted(absent))
            beaten = {label.index: label for label in table_labels(read_table(store, path), city.city_id)}
            found += [beaten.get(label.index, label) for label in chunk]
            progress.advance(len(chunk))
    return found


def beats(new: float, known: float) -> bool:
    """Return whether the cost ``new`` is lower than what is ``known`` by more than rounding."""
    return new < known * (1 - COST_TOLERANCE)


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
