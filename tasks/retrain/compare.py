"""Costs of champion and challenger on the same instances: some drawn for it, and days kept for comparing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from mcvrp.model.instances import InstanceStream, Rules
from mcvrp.model.problem import City, Instance
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.labels.schema import Label
from mcvrp.storage.layout import label_spec
from mcvrp.storage.models.models import ModelCard, load_model
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.spec import stored_spec
from mcvrp.tasks.retrain.decide import COLUMNS, DRAWN, FRESH
from mcvrp.tasks.retrain.spec import TrialSpec
from mcvrp.tasks.support.machine import local_cores
from mcvrp.tasks.support.pool import Pool
from mcvrp.tasks.support.progress import Progress

if TYPE_CHECKING:
    from mcvrp.tasks.solvers.fm_mcvrp import FmMcvrpSolver

_SIZES = 3  # where the spec names none
_MOST_INSTANCES = 2**20  # of a trial and size, more than a spec may ask for


def compared(
    store: Store,
    city: City,
    spec: TrialSpec,
    dataset: str,
    cards: tuple[ModelCard, ModelCard],
    trial: str,
    fresh: Sequence[tuple[str, Label]],
) -> pd.DataFrame:
    """Return the best costs of champion and challenger, a row an instance with `COLUMNS`.

    Parameters
    ----------
    dataset
        Of the old labels: the drawn instances have its sizes, demands and capacities.
    cards
        Of champion and challenger.
    trial
        Its name, which decides what is drawn: each trial has instances of its own, a resumed one the same.
    fresh
        Days to compare on beside the drawn instances, by their dates.
    """
    stream = InstanceStream(city, spec.seed, "trial", _rules(store, city, dataset))
    first = int.from_bytes(hashlib.sha256(trial.encode()).digest()[:5]) * _MOST_INSTANCES
    rows = [
        (DRAWN, stream(n, i), f"(n={n}, i={i})")
        for n in spec.sizes or _sizes(store, dataset)
        for i in range(first, first + spec.instances)
    ]
    # days that no version has learned from, nor ever will: see `tasks.retrain.nightly`
    rows += [(FRESH, label.instance, date) for date, label in fresh]
    instances = [instance for _, instance, _ in rows]
    costs = [list(_costs(store, city, spec, card, instances)) for card in cards]
    named = [(part, instance.n, name) for part, instance, name in rows]
    return pd.DataFrame(named, columns=list(COLUMNS[:3])).assign(champion=costs[0], challenger=costs[1])


def _rules(store: Store, city: City, dataset: str) -> Rules:
    """Return how the orders of the old labels were drawn; where nothing says so, as the city has them."""
    if not store.exists(label_spec(dataset)):
        return Rules.of(city, None, None)
    return stored_spec(store, dataset)[0].rules_in(city)


def _sizes(store: Store, dataset: str) -> list[int]:
    """Return the smallest, a middle and the largest size of the old labels, which stay the same for years."""
    there = Dataset.open(store, dataset).sizes()
    return sorted({there[(len(there) - 1) * k // (_SIZES - 1)] for k in range(_SIZES)})


def _costs(
    store: Store, city: City, spec: TrialSpec, card: ModelCard, instances: Sequence[Instance]
) -> Iterator[float]:
    """Yield the best cost of the samples on each instance; infinite where none is feasible."""
    counted = Progress(f"compare, version {card.version}", len(instances), "instances")
    with Pool(local_cores()) as pool, counted as progress:
        solver = sampler(store, card, spec.p, spec.samples, pool)
        for answer in solver.solve(city, instances, samples=spec.samples, seed=spec.seed):
            progress.advance()
            yield float(np.min(answer.costs)) if answer.solution is not None else float("inf")


def sampler(store: Store, card: ModelCard, p: float, samples: int, pool: Pool) -> FmMcvrpSolver:
    """Return the version of ``card`` as a solver of ``samples`` each, on the GPU where there is one."""
    import torch

    from mcvrp.model.strategies import Nucleus
    from mcvrp.tasks.solvers.fm_mcvrp import FmMcvrpSolver

    network, _ = load_model(store, card.name, card.version)
    network = network.to("cuda" if torch.cuda.is_available() else "cpu")
    rotations = samples if card.rotation_trained else 1  # to any other network a turned city is a strange one
    return FmMcvrpSolver(network, Nucleus(p), rotations, f"{card.name}@{card.version}", pool=pool)
