"""Costs of champion and challenger on the same instances: trial instances and held-out days."""

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

_SIZES = 3  # number of sizes if the spec has none
_MOST_INSTANCES = 2**20  # per trial and size, above the bound of the spec


def compared(
    store: Store,
    city: City,
    spec: TrialSpec,
    dataset: str,
    cards: tuple[ModelCard, ModelCard],
    trial: str,
    fresh: Sequence[tuple[str, Label]],
) -> pd.DataFrame:
    """Return the best costs of champion and challenger, one row per instance with `COLUMNS`.

    Parameters
    ----------
    dataset
        Old labels, whose sizes, demands and capacities the trial instances have.
    cards
        Champion and challenger.
    trial
        Name of the trial. It determines the trial instances: other ones in each trial, the same ones in a
        resumed trial.
    fresh
        Held-out days by date.
    """
    stream = InstanceStream(city, spec.seed, "trial", _rules(store, city, dataset))
    first = int.from_bytes(hashlib.sha256(trial.encode()).digest()[:5]) * _MOST_INSTANCES
    rows = [
        (DRAWN, stream(n, i), f"(n={n}, i={i})")
        for n in spec.sizes or _sizes(store, dataset)
        for i in range(first, first + spec.instances)
    ]
    # held-out days are never trained on, by any version: see `tasks.retrain.nightly`
    rows += [(FRESH, label.instance, date) for date, label in fresh]
    instances = [instance for _, instance, _ in rows]
    costs = [list(_costs(store, city, spec, card, instances)) for card in cards]
    named = [(part, instance.n, name) for part, instance, name in rows]
    return pd.DataFrame(named, columns=list(COLUMNS[:3])).assign(champion=costs[0], challenger=costs[1])


def _rules(store: Store, city: City, dataset: str) -> Rules:
    """Return the rules that the old labels were sampled by; the city's if they have no spec."""
    if not store.exists(label_spec(dataset)):
        return Rules.of(city, None, None)
    return stored_spec(store, dataset)[0].rules_in(city)


def _sizes(store: Store, dataset: str) -> list[int]:
    """Return the smallest, the median and the largest size of the old labels."""
    sizes = Dataset.open(store, dataset).sizes()
    return sorted({sizes[(len(sizes) - 1) * k // (_SIZES - 1)] for k in range(_SIZES)})


def _costs(
    store: Store, city: City, spec: TrialSpec, card: ModelCard, instances: Sequence[Instance]
) -> Iterator[float]:
    """Yield the best cost of the samples on each instance; infinite if none is feasible."""
    label = f"compare, version {card.version}"
    with Pool(local_cores()) as pool, Progress(label, len(instances), "instances") as progress:
        solver = sampler(store, card, spec.p, spec.samples, pool)
        for answer in solver.solve(city, instances, samples=spec.samples, seed=spec.seed):
            progress.advance()
            yield float(np.min(answer.costs)) if answer.solution is not None else float("inf")


def sampler(store: Store, card: ModelCard, p: float, samples: int, pool: Pool) -> FmMcvrpSolver:
    """Return the version of ``card`` as a solver with ``samples`` per instance, on a GPU if there is one."""
    import torch

    from mcvrp.model.strategies import Nucleus
    from mcvrp.tasks.solvers.fm_mcvrp import FmMcvrpSolver

    network, _ = load_model(store, card.name, card.version)
    network = network.to("cuda" if torch.cuda.is_available() else "cpu")
    rotations = samples if card.rotation_trained else 1  # other networks do not know rotated cities
    return FmMcvrpSolver(network, Nucleus(p), rotations, f"{card.name}@{card.version}", pool=pool)
