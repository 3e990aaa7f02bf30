"""A label is only replaced by a better one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from mcvrp.model.canonical_form import canonical
from mcvrp.model.problem import City, Instance, cost
from mcvrp.storage.cities import Addresses, StoredCity
from mcvrp.storage.labels.schema import MODEL, Label
from mcvrp.storage.store.store import Store
from mcvrp.tasks.retrain.beam import beats, gains, improved
from mcvrp.tasks.retrain.labels import key_of
from mcvrp.tasks.retrain.spec import NightlySpec
from mcvrp.tasks.retrain.trial import TrialContext
from mcvrp.tasks.solvers.solver import Answer
from tests.support.datasets import all_labels
from tests.support.labels import sweep
from tests.support.training import alone, write_dataset

CITY = City.uniform(60, seed=3)


def even(instance: Instance) -> bool:
    """Return whether `Half` improves the label of the instance."""
    return int(instance.ids.sum()) % 2 == 0


class Half:
    """A solver that sweeps if `even`, and otherwise serves each customer on its own."""

    label, version, device, configuration = "half", "small@1", "1 CPU core", ""

    def __init__(self) -> None:
        self.asked = 0

    def solve(
        self, city: City, instances: Sequence[Instance], *, samples: int, seed: int
    ) -> Iterator[Answer]:
        for instance in instances:
            self.asked += 1
            solution = (sweep if even(instance) else alone)(city, instance)
            yield Answer(solution, np.array([cost(city, solution)]), 0.5)


@pytest.fixture
def labels(tmp_path: Path) -> list[Label]:
    store = Store.open(tmp_path / "labels")
    write_dataset(store, CITY, range(20, 22), 6, solve=alone)
    first, *others = all_labels(store, "tiny")
    return [replace(first, source=MODEL), *others]


def test_what_beats_a_label_takes_its_place(tmp_path: Path, labels: list[Label]) -> None:
    """Improved labels name the solver, all others are unchanged; a stored chunk is not tried again."""
    spec, solver = NightlySpec(model="small", beam=4, seed=7), Half()
    city = StoredCity("small", CITY, Addresses.numbered(CITY.customers), "synthetic")
    context = TrialContext(Store.open(tmp_path / "store"), city, spec, Mock(), "tiny", (), 0.0)
    after, again = (improved(context, "night-1", labels, solver) for _ in range(2))
    assert [(each.cost, each.source) for each in again] == [(each.cost, each.source) for each in after]
    assert solver.asked == 12
    for known, new in zip(labels, after, strict=True):
        assert key_of(new.instance) == key_of(known.instance)
        if even(known.instance):
            assert new.solution == canonical(CITY, sweep(CITY, known.instance))
            assert (new.source, new.solver, new.version) == (MODEL, "half", "small@1")
            assert (new.seed, new.budget, new.runtime) == (7, "4 samples", 0.5)
            assert new.cost == cost(CITY, new.solution) < known.cost
        else:
            assert (new.solution, new.cost, new.source) == (known.solution, known.cost, known.source)
    gain, beaten = gains(labels, after), sum(even(label.instance) for label in labels)
    before, now = (float(np.mean([label.cost for label in each])) for each in (labels, after))
    assert 0 < beaten < 12
    assert (gain.looked, gain.improved, gain.before, gain.after) == (12, beaten, before, now)
    assert gain.share == pytest.approx(100 * beaten / 12)
    assert gain.change == pytest.approx(100 * (now / before - 1))


def test_equal_costs_and_rounding_beat_nothing() -> None:
    """The tolerance exceeds the rounding of a sum of the same legs in another order, in any unit."""
    assert not beats(5.0, 5.0)
    assert not beats(0.1 + 0.2, 0.3)
    assert not beats(1e7 - 1e-4, 1e7)
    assert beats(5.0 - 1e-6, 5.0)
    assert not beats(float("inf"), 5.0)
