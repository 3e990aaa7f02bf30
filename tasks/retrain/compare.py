"""Costs of champion and challenger on the same trial instances and held-out days."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from mcvrp.model.errors import McvrpError
from mcvrp.model.instances import InstanceStream, Rules
from mcvrp.model.problem import City, Instance
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.labels.schema import Label
from mcvrp.storage.layout import label_spec
from mcvrp.storage.models.models import ModelCard, load_model
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.spec import stored_spec
from mcvrp.tasks.retrain.decide import COLUMNS, DRAWN, HELD_OUT
from mcvrp.tasks.retrain.spec import NightlySpec
from mcvrp.tasks.support.machine import local_cores
from mcvrp.tasks.support.pool import Pool
from mcvrp.tasks.support.progress import Progress

if TYPE_CHECKING:
    from mcvrp.tasks.solvers.fm_mcvrp import FmMcvrpSolver

_SIZES = 3  # number of sizes if the spec has none
_MOST_INSTANCES = 2**20  # per night and size, above the bound of the spec


TrialInstance = tuple[str, Instance, str]  # part (drawn or held-out), instance, name


def trial_instances(
    store: Store, city: City, spec: NightlySpec, dataset: str, night: str, fresh: Sequence[tuple[str, Label]]
) -> list[TrialInstance]:
    """Return the instances that decide on a challenger.

    They have the sizes, demands and capacities of the old labels in ``dataset``. The name of the ``night``
    determines them: other ones in each night, the same ones in a resumed night. ``fresh`` are held-out days
    by date. McvrpError if there is no label whose size they could have, or no capacity rule covers a size.
    """
    rules = rules_of(store, city, dataset)
    stream, first = InstanceStream(city, spec.seed, "trial", rules), first_instance(night)
    sizes = spec.sizes or _sizes(store, dataset)
    for n in sizes:
        try:
            rules.capacity_range(n)
        except McvrpError as error:
            raise McvrpError(
                f"dataset {dataset!r} has no capacity rule for trial instances of {n} customers: give other "
                "sizes (nightly.sizes)"
            ) from error
    drawn = [
        (DRAWN, stream(n, i), f"(n={n}, i={i})") for n in sizes for i in range(first, first + spec.instances)
    ]
    # held-out days are never trained on, by any version: see `tasks.retrain.nightly`
    return [*drawn, *((HELD_OUT, label.instance, date) for date, label in fresh)]


def rules_of(store: Store, city: City, dataset: str) -> Rules:
    """Return the rules of the instances of ``dataset``, those of the city if it has no spec."""
    has_spec = store.exists(label_spec(dataset))
    return stored_spec(store, dataset)[0].rules_in(city) if has_spec else Rules.of(city, None, None)


def first_instance(night: str) -> int:
    """Return the number of the first instance of ``night`` in a stream, another one for each night."""
    return int.from_bytes(hashlib.sha256(night.encode()).digest()[:5]) * _MOST_INSTANCES


def _sizes(store: Store, dataset: str) -> list[int]:
    """Return the smallest, the median and the largest size of the old labels."""
    sizes = Dataset.listed(store, dataset).sizes()
    if not sizes:
        raise McvrpError(
            f"dataset {dataset!r} has no labels in this store, whose sizes the trial instances would have: "
            "set nightly.sizes, or nightly.old to a dataset with labels"
        )
    return sorted({sizes[(len(sizes) - 1) * k // (_SIZES - 1)] for k in range(_SIZES)})


def compared(
    store: Store,
    city: City,
    spec: NightlySpec,
    rows: Sequence[TrialInstance],
    cards: tuple[ModelCard, ModelCard],
) -> pd.DataFrame:
    """Return the best costs of champion and challenger (``cards``), one row per instance with `COLUMNS`."""
    instances = [instance for _, instance, _ in rows]
    costs = [list(_costs(store, city, spec, card, instances)) for card in cards]
    named = [(part, instance.n, name) for part, instance, name in rows]
    return pd.DataFrame(named, columns=list(COLUMNS[:3])).assign(champion=costs[0], challenger=costs[1])


def _costs(
    store: Store, city: City, spec: NightlySpec, card: ModelCard, instances: Sequence[Instance]
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
    from mcvrp.model.strategies import Nucleus
    from mcvrp.tasks.solvers.devices import placed
    from mcvrp.tasks.solvers.fm_mcvrp import FmMcvrpSolver

    network, _ = load_model(store, card.name, card.version)
    rotations = samples if card.rotation_trained else 1  # other networks do not know rotated cities
    return FmMcvrpSolver(placed(network), Nucleus(p), rotations, f"{card.name}@{card.version}", pool=pool)
