"""The improvement loop: a label is only replaced by a better one, and rounds build on each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mcvrp.flows.figures import improve_figures
from mcvrp.flows.improve import to_first_rejection
from mcvrp.model.canonical_form import canonical
from mcvrp.model.decoding import Beam, decode
from mcvrp.model.problem import City, Instance, cost
from mcvrp.storage.cities import Addresses, StoredCity
from mcvrp.storage.labels.schema import MODEL, SOLVED, Label
from mcvrp.storage.layout import ROUND
from mcvrp.storage.models.models import load_model, versions
from mcvrp.storage.models.registry import ALIASES, pointer
from mcvrp.storage.store.store import Store
from mcvrp.storage.trials import trial_records
from mcvrp.tasks.retrain import trial
from mcvrp.tasks.retrain.card import round_table
from mcvrp.tasks.retrain.decide import COLUMNS, DRAWN
from mcvrp.tasks.retrain.improve import Round, beats, gains, improved, run_round
from mcvrp.tasks.retrain.labels import best_known, key_of
from mcvrp.tasks.retrain.spec import ImproveSpec
from mcvrp.tasks.solvers import local_search
from mcvrp.tasks.solvers.solver import Answer
from mcvrp.tasks.train.phases import train
from tests.support.datasets import all_labels, everything
from tests.support.killed import killed_at_each_write
from tests.support.labels import sweep
from tests.support.training import alone, nudge, small_spec, write_dataset

CITY = City.uniform(60, seed=3)
SPEC = ImproveSpec(model="small", rounds=2, count=24, tries=2, instances=2, samples=2, batch=12, sizes=(20,))


def even(instance: Instance) -> bool:
    """Return whether `Half` improves the label of the instance."""
    return int(instance.ids.sum()) % 2 == 0


class Half:
    """A solver that sweeps if `even`, and otherwise serves each customer on its own."""

    label, version, device, configuration = "half", "small@1", "1 CPU core", ""

    def __init__(self, sampler: object = None) -> None:
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
    store, solver = Store.open(tmp_path / "store"), Half()
    after = improved(store, CITY, ("small", "improve-1"), labels, solver, tries=4, seed=7)
    again = improved(store, CITY, ("small", "improve-1"), labels, solver, tries=4, seed=7)
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


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A trained model whose solutions improve half of the labels, with fixed costs in the comparison."""
    store = Store.open(tmp_path / "store")
    write_dataset(store, CITY, range(20, 23), 12, solve=alone)
    train(store, CITY, small_spec(), tmp_path, nudge)
    pairs = pd.DataFrame([(DRAWN, 20, f"i={i}", 5.0, 5.0 - i / 9) for i in range(3)], columns=list(COLUMNS))
    monkeypatch.setattr(trial, "compared", lambda *_: pairs)
    monkeypatch.setattr(local_search, "Polished", Half)
    return store


SMALL = StoredCity("small", CITY, Addresses.numbered(CITY.customers), "synthetic")


def loop(store: Store, spec: ImproveSpec = SPEC) -> list[Round]:
    return [run_round(store, SMALL, spec, k, Path("/nowhere"), nudge) for k in range(1, spec.rounds + 1)]


def test_a_round_goes_on_from_champion_and_labels_of_the_last(store: Store, decided: list[bool]) -> None:
    """Later rounds are compared with the improved labels; the promoted version is the next champion."""
    first, second = loop(store)
    assert (first.record.champion, first.record.challenger, first.record.applied) == (1, 2, True)
    assert (second.record.champion, second.record.challenger) == (2, 3)
    assert first.record.old == second.record.old == "tiny"
    assert first.measured.gains
    assert second.measured.gains
    assert first.measured.gains.improved > 0
    known = best_known(store, "small", [first.record])
    assert len(known) == first.measured.gains.improved
    rows = all_labels(store, second.record.name)
    again = [label for label in rows if key_of(label.instance) in known]
    assert again
    assert all(label.source == MODEL for label in again)
    assert all(label.cost == known[key_of(label.instance)].cost for label in again)
    assert {label.source for label in rows} == {MODEL, SOLVED}
    fewer = sum(key_of(label.instance) not in known and even(label.instance) for label in rows)
    assert second.measured.gains.improved == fewer


def test_rounds_end_with_the_first_that_does_not_promote(store: Store, decided: list[bool]) -> None:
    """No round is begun after one whose challenger was rejected."""
    decided += [True, False, True]
    begun = (run_round(store, SMALL, SPEC, k, Path("/nowhere"), nudge) for k in range(1, 4))
    assert [each.record.promote for each in to_first_rejection(begun)] == [True, False]
    assert len(trial_records(store, "small", ROUND)) == 2


def test_a_beam_improves_labels_without_local_search(store: Store, decided: list[bool]) -> None:
    """By beam, a label is replaced by the cheapest path of the champion's beam if that costs less."""
    spec = SPEC.model_copy(update={"by": "beam", "tries": 3})
    done = run_round(store, SMALL, spec, 1, Path("/nowhere"), nudge)
    known = best_known(store, "small", [done.record])
    assert done.measured.gains
    assert 0 < len(known) == done.measured.gains.improved
    network, card = load_model(store, "small", 1)
    for label in known.values():
        (beam,) = decode(network, CITY, [label.instance], strategy=Beam(3), samples=3)
        assert label.cost == pytest.approx(beam.costs.min())
        assert (label.source, label.version) == (MODEL, f"small@{card.version}")
    assert {label.solver for label in known.values()} == {"FM-MCVRP (BS)"}


def test_a_finished_loop_is_left_as_it_is(store: Store, decided: list[bool]) -> None:
    """A repeated loop writes nothing; more rounds continue it from the same champion if none was promoted."""
    decided += [False, True]
    done = loop(store)
    assert [each.record.champion for each in done] == [1, 1]
    assert pointer(store, "small", "champion").version == 3
    models = round_table([(each.record, each.measured) for each in done]).split("\n\n")[-1]
    assert [line.split(" | ")[-2] for line in models.splitlines()[2:]] == ["no", "version 3"]
    before = everything(store)
    again = loop(store)
    assert [(each.record, each.measured, each.new) for each in again] == [
        (each.record, each.measured, False) for each in done
    ]
    assert everything(store) == before
    assert improve_figures(again)["rounds"] == "2, all done before"
    more = loop(store, SPEC.model_copy(update={"rounds": 3}))
    assert [each.new for each in more] == [False, False, True]


@pytest.mark.slow
def test_a_round_that_is_killed_goes_on(store: Store, decided: list[bool], tmp_path: Path) -> None:
    spec = SPEC.model_copy(update={"rounds": 1, "count": 9})
    for there, _ in killed_at_each_write(store, tmp_path, lambda there: loop(there, spec), at_least=27):
        loop(there, spec)
        (record,) = trial_records(there, "small", ROUND)
        assert (record.number, record.challenger, record.applied) == (1, 2, True)
        assert versions(there, "small") == [1, 2]
        assert [pointer(there, "small", alias).version for alias in ALIASES] == [2, None]
        folder = f"rounds/small/{record.name}"
        names = {path.removeprefix(f"{folder}/").split("/")[0] for path in there.list(folder)}
        comparison = {"comparison.parquet", "improved"}
        assert names == {"README.md", "spec.json", "metrics.json", "round.json"} | comparison
        readme = there.get(f"{folder}/README.md").decode()
        assert "**Version 2 was promoted: so it was said.**" in readme
        assert "## Rounds of this loop" in readme
