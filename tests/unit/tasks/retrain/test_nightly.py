"""Course of a night: training data, decision, and that a repeated night changes nothing."""

from __future__ import annotations

import datetime
import logging
import re
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from types import ModuleType
from unittest.mock import Mock

import pandas as pd
import pytest

from mcvrp.model.decoding import Beam, decode
from mcvrp.model.errors import McvrpError
from mcvrp.model.instances import InstanceStream, Rules
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.cities import Addresses, StoredCity
from mcvrp.storage.driven import driven_days
from mcvrp.storage.labels.schema import MODEL, Label
from mcvrp.storage.models.models import load_model, model_card, versions
from mcvrp.storage.models.registry import enrol, move_champion, pointer
from mcvrp.storage.nights import NightRecord, night_records, read_pairs
from mcvrp.storage.store.store import Store
from mcvrp.tasks.driven.take import take_routes
from mcvrp.tasks.retrain import trial
from mcvrp.tasks.retrain.card import read_metrics
from mcvrp.tasks.retrain.compare import sampler
from mcvrp.tasks.retrain.decide import COLUMNS, HELD_OUT, LEAST_PAIRS
from mcvrp.tasks.retrain.labels import key_of
from mcvrp.tasks.retrain.nightly import NightSummary, run_night
from mcvrp.tasks.retrain.spec import NightlySpec
from mcvrp.tasks.retrain.trial import check_trial
from mcvrp.tasks.support.pool import Pool
from mcvrp.tasks.train import phases
from mcvrp.tasks.train.phases import train
from tests.support.datasets import all_labels, everything
from tests.support.killed import killed_at_each_write
from tests.support.training import alone, nudge, small_spec, write_dataset

CITY = City.uniform(60, seed=3)
SMALL = StoredCity(
    "small-city", CITY, Addresses(("depot", *(f"C{node}" for node in range(1, 61)))), "imported"
)
TODAY = datetime.date(2026, 3, 1)
SPEC = NightlySpec(
    model="small", replay=30, instances=2, samples=2, batch=12, sizes=(20,), held_out_every=3,
    beam=2,
)  # fmt: skip
AS_DRIVEN = SPEC.model_copy(update={"beam": 0})
PAIRS = pd.DataFrame([("drawn", 20, f"i={i}", 5.0, 5.0 - i / 9) for i in range(3)], columns=list(COLUMNS))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store.open(tmp_path / "store")
    write_dataset(store, CITY, range(20, 23), 30)
    train(store, CITY, small_spec(), tmp_path, nudge)
    return store


def drive(store: Store, first: int, last: int, name: str = "routes.csv") -> None:
    """Put a file of routes of the days ``first`` to ``last`` of February, two routes of four stops each."""
    lines = ["date,route,stop,customer,demand,capacity"]
    for day in range(first, last + 1):
        for k in range(8):
            lines.append(
                f"2026-02-{day:02},r{k // 4},{k % 4 + 1},C{1 + (7 * day + 5 * k) % 60},{1 + k % 3},12"
            )
    store.put(f"incoming/{name}", "\n".join(lines).encode())


def night(store: Store, spec: NightlySpec = SPEC) -> NightSummary:
    return run_night(store, SMALL, spec, Path("/nowhere"), today=TODAY, launch=nudge)


def decision(store: Store) -> NightRecord:
    night(store)
    return night_records(store, "small")[-1]


def test_a_night_learns_from_fresh_days_and_old_labels(store: Store, decided: list[bool]) -> None:
    """Held-out days are not in the training data; the README describes data and decision."""
    drive(store, 1, 12)
    summary = night(store, AS_DRIVEN)
    assert summary.measured
    assert summary.record
    learned = learned_by(store, summary)
    driven = [label for label in learned if label.source == "driven"]
    assert len(driven) == summary.measured.mix.fresh == len(summary.record.days) * summary.measured.mix.times
    assert 0.2 < len(driven) / len(learned) < 0.4
    assert 0 < len(summary.record.days) < 12
    kept = {day.split()[0] for day in summary.record.days}
    pairs = read_pairs(store, "small", summary.record.name)
    assert pairs is not None
    compared = set(pairs.loc[pairs["part"] == HELD_OUT, "name"])
    assert compared | kept == {f"2026-02-{day:02}" for day in range(1, 13)}
    assert not compared & kept
    folder = f"nights/small/{summary.record.name}"
    files = {"README.md", "spec.json", "metrics.json", "comparison.parquet", "night.json"}
    assert {path.removeprefix(f"{folder}/") for path in store.list(folder)} == files
    assert read_metrics(store, "small", summary.record.name) == summary.measured
    assert store.get_json(f"{folder}/spec.json") == AS_DRIVEN.model_dump(mode="json")
    readme = store.get(f"{folder}/README.md").decode()
    for text in ("# Night 1 of `small`", "was promoted: so it was said", "fresh days"):
        assert text in readme


def learned_by(store: Store, summary: NightSummary) -> list[Label]:
    """Return the labels of a night."""
    assert summary.measured
    return all_labels(store, summary.measured.mix.dataset)


def test_a_night_learns_the_better_of_each_route_and_the_champions_beam(
    store: Store, decided: list[bool]
) -> None:
    """Of driven days and old labels alike; what a night has improved, a later one does not lose."""
    write_dataset(store, CITY, range(20, 23), 30, name="poor", solve=alone)
    spec = SPEC.model_copy(update={"old": "poor"})
    drive(store, 1, 8)
    decided += [False, True]
    driven = {key_of(day.instance): day.cost for day in ingested(store).values()}
    old = {key_of(label.instance): label.cost for label in all_labels(store, "poor")}
    first = night(store, spec)
    assert first.measured
    assert first.measured.gains
    network, _ = load_model(store, "small", 1)
    learned = {key_of(label.instance): label for label in learned_by(store, first)}
    for key, label in learned.items():
        (beam,) = decode(network, CITY, [label.instance], strategy=Beam(2), samples=2)
        known = driven.get(key, old.get(key))
        assert known is not None
        assert label.cost == pytest.approx(min(known, beam.costs.min()))
        assert (label.source == MODEL) == (label.cost < known * (1 - 1e-6))
    improved = {key for key, label in learned.items() if label.source == MODEL}
    assert 0 < len(improved & driven.keys()) < len(driven)
    assert improved & old.keys()
    assert first.measured.gains.improved == len(improved)
    drive(store, 9, 12, "more.csv")
    for label in learned_by(store, night(store, spec)):
        key = key_of(label.instance)
        assert key not in learned or label.cost <= learned[key].cost


def test_new_instances_take_the_places_of_old_labels_that_there_are_not(
    store: Store, decided: list[bool]
) -> None:
    """They are drawn like the old ones, and routed by the champion's beam."""
    drive(store, 1, 8)
    old = {key_of(label.instance) for label in all_labels(store, "tiny")}
    summary = night(store, SPEC.model_copy(update={"replay": len(old) + 9}))
    new = [
        label
        for label in learned_by(store, summary)
        if label.instance.n != 8 and key_of(label.instance) not in old
    ]
    assert sorted(label.instance.n for label in new) == [20] * 3 + [21] * 3 + [22] * 3
    network, _ = load_model(store, "small", 1)
    for label in new:
        (beam,) = decode(network, CITY, [label.instance], strategy=Beam(2), samples=2)
        assert label.cost == pytest.approx(beam.costs.min())
    assert summary.measured
    assert summary.measured.gains
    assert summary.measured.gains.looked == len(old) + len(ingested(store)) - held_out(store, summary)


def held_out(store: Store, summary: NightSummary) -> int:
    assert summary.record
    return len(driven_days(store, SMALL.name)) - len(summary.record.days)


def ingested(store: Store) -> dict[str, Label]:
    """Return the days of `incoming/`, as a night ingests them."""
    take_routes(store, SMALL, today=TODAY, incoming=SPEC.incoming)
    return {day.date.isoformat(): day.label for day in driven_days(store, SMALL.name)}


def drawn_pairs(store: Store, trial: str) -> dict[tuple[int, int], float]:
    """Return the champion's cost on each trial instance (n, i)."""
    pairs = read_pairs(store, "small", trial)
    assert pairs is not None
    rows = pairs[pairs["part"] != HELD_OUT]
    names = [re.fullmatch(r"\(n=(\d+), i=(\d+)\)", name) for name in rows["name"]]
    return {
        (int(name[1]), int(name[2])): cost for name, cost in zip(names, rows["champion"], strict=True) if name
    }


def test_nights_draw_instances_that_no_benchmark_and_no_other_night_has(
    store: Store, decided: list[bool]
) -> None:
    """New days start a new night on the new champion, with the same old labels and other trial instances."""
    drive(store, 1, 8)
    first = decision(store)
    drive(store, 9, 12, "more.csv")
    second = decision(store)
    assert (second.number, second.champion, second.challenger) == (2, 2, 3)
    assert first.old == second.old == "tiny"
    assert set(first.days) < set(second.days)
    solver = sampler(store, model_card(store, "small", 1), SPEC.p, SPEC.samples, Pool(1))
    rules = Rules.of(CITY, None, None)
    drawn = drawn_pairs(store, first.name)
    assert len(drawn) == SPEC.instances
    for (n, i), champion in drawn.items():
        costs = {}
        for split, k in (("trial", i), ("test", i % SPEC.instances)):
            instance = InstanceStream(CITY, SPEC.seed, split, rules)(n, k)  # type: ignore[arg-type]
            (answer,) = solver.solve(CITY, [instance], samples=SPEC.samples, seed=SPEC.seed)
            costs[split] = float(answer.costs.min())
        assert champion == costs["trial"] != costs["test"]
    assert not drawn.keys() & drawn_pairs(store, second.name).keys()


def test_a_night_that_is_cut_off_compares_on_the_same_instances(
    store: Store, decided: list[bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drive(store, 1, 8)
    shutil.copytree(store.uri, tmp_path / "other")
    other = Store.open(tmp_path / "other")
    stopped(other, monkeypatch, trial, "write_pairs")
    ended = decision(other)
    assert ended == decision(store)
    assert drawn_pairs(other, ended.name) == drawn_pairs(store, ended.name)


def test_promoted_and_run_again_nothing_changes(store: Store, decided: list[bool]) -> None:
    """A night without routes and a repeated one write nothing, a day that was removed is read again.

    A later one does not undo a rollback.
    """
    before = everything(store)
    summary = night(store)
    assert summary.record is None
    assert everything(store) == before
    drive(store, 1, 8)
    summary = night(store)
    assert summary.record
    assert summary.record.applied
    assert pointer(store, "small", "champion").version == 2
    before = everything(store)
    assert night(store).record is None
    assert everything(store) == before
    day = summary.record.days[0].split()[0]
    store.delete(layout.driven_day(SMALL.name, day))
    again = night(store)
    assert (again.record, again.taken.days) == (None, (day,))
    assert everything(store) == before
    move_champion(store, "small", 1, pointer(store, "small", "champion"))
    night(store)
    assert pointer(store, "small", "champion").version == 1


def test_a_comparison_with_too_few_pairs_is_repeated_with_more_instances(store: Store) -> None:
    """Of the same challenger, on new instances; neither one with a test, nor one of another training is."""
    drive(store, 1, 8)
    first, more = decision(store), SPEC.model_copy(update={"instances": LEAST_PAIRS})
    assert "run mcvrp nightly again with a larger nightly.instances" in first.reasons[0]
    assert night(store, more.model_copy(update={"lr": 0.1})).record is None
    again = night(store, more).record or first
    assert (again.number, again.days, again.challenger) == (2, first.days, first.challenger)
    assert len(drawn_pairs(store, again.name).keys() - drawn_pairs(store, first.name)) == LEAST_PAIRS
    assert f"labels/{first.name}" in store.get(f"nights/small/{again.name}/README.md").decode()
    assert night(store, more.model_copy(update={"instances": 2 * LEAST_PAIRS})).record is None


def publish_another(store: Store) -> None:
    taken = [int(name) for name in store.folders(layout.models_dir("small")) if name.isdecimal()]
    card = replace(model_card(store, "small", 1), version=max(taken) + 1, run="another")
    store.put_json(layout.model_card("small", card.version), asdict(card))
    enrol(store, "small", card.version)


@pytest.fixture
def waiting(store: Store, decided: list[bool], monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store whose night was interrupted between decision and promotion."""
    drive(store, 1, 8)
    stopped(store, monkeypatch, trial, "move_champion")
    return store


def stopped(store: Store, monkeypatch: pytest.MonkeyPatch, module: ModuleType, step: str) -> None:
    """Start a night, and interrupt it before the ``step`` of ``module``."""
    with monkeypatch.context() as patch:
        patch.setattr(module, step, Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            night(store)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "step", "meanwhile", "at_least"),
    [
        (trial, "compared", False, 8),
        (trial, "compared", True, 8),
        (None, "", False, 39),
        (phases, "publish", True, 14),
    ],
)
def test_a_killed_night_is_completed(
    store: Store,
    decided: list[bool],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    module: ModuleType | None,
    step: str,
    meanwhile: bool,
    at_least: int,
) -> None:
    """Killed at any write after ``step``, it promotes one version once, whatever is published meanwhile."""
    drive(store, 1, 8)
    if module:
        stopped(store, monkeypatch, module, step)
    monkeypatch.setattr(trial, "compared", lambda *_: PAIRS)
    for there, _ in killed_at_each_write(store, tmp_path, night, at_least=at_least):
        if module is trial:
            champion = pointer(there, "small", "champion").version
            assert (champion, pointer(there, "small", "challenger").version) in ((1, 2), (2, None))
        # three versions: a number that was reserved before the kill may stay unused
        assert len(promoted_once(there, meanwhile)) == 2 + meanwhile


def promoted_once(store: Store, meanwhile: bool) -> list[int]:
    """Complete a killed night, with another version published ``meanwhile``, and return all versions."""
    if meanwhile:
        publish_another(store)
    night(store)
    (record,) = night_records(store, "small")
    assert (record.number, record.champion, record.applied) == (1, 1, True)
    champion = model_card(store, "small", "champion")
    assert (champion.version, champion.run) == (record.challenger, record.name)
    known = versions(store, "small")
    newer = [version for version in known if version > champion.version]
    assert pointer(store, "small", "challenger").version == (newer[0] if newer else None)
    before = everything(store)
    assert night(store).record is None
    assert everything(store) == before
    return known


@pytest.mark.parametrize(("moved", "champion"), [((3,), 3), ((3, 2), 2), ((2, 1), 1)])
def test_a_champion_that_somebody_moved_is_left_alone(
    waiting: Store, moved: tuple[int, ...], champion: int
) -> None:
    """Interrupted between decision and promotion: a promotion by the user takes precedence."""
    publish_another(waiting)
    for version in moved:
        move_champion(waiting, "small", version, pointer(waiting, "small", "champion"))
    record = decision(waiting)
    assert pointer(waiting, "small", "champion").version == champion
    if champion == record.challenger:
        assert record.applied
    else:
        assert not record.promote
        assert "the champion was changed" in record.reasons[-1]


def test_a_night_without_days_completes_a_promotion_and_names_the_champion(
    waiting: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """Not that of the last night, which the user may have moved since."""
    with caplog.at_level(logging.INFO, "mcvrp"):
        assert night(waiting).champion == 2
    assert any(message.endswith("version 2 of model small was promoted") for message in caplog.messages)
    move_champion(waiting, "small", 1, pointer(waiting, "small", "champion"))
    done = night(waiting)
    assert (done.record, done.champion, decision(waiting).now) == (None, 1, 2)


def test_a_challenger_that_was_removed_is_not_promoted(waiting: Store) -> None:
    """Interrupted between decision and promotion: the next night is not blocked by it."""
    waiting.delete(layout.model_dir("small", 2))
    record = decision(waiting)
    assert (record.promote, record.reasons[-1]) == (False, "version 2 was removed in the meantime")
    assert pointer(waiting, "small", "champion").version == 1
    assert decision(waiting) == record


def test_another_city_and_sizes_beyond_it_are_refused_before_any_work(store: Store) -> None:
    other = replace(SMALL, name="other", city=City.uniform(60, seed=4))
    with pytest.raises(McvrpError, match=r"routes city .*, not city 'other'"):
        check_trial(store, other, SPEC)
    with pytest.raises(McvrpError, match=r"nightly\.sizes has 61, but the city has 60 customers"):
        check_trial(store, SMALL, SPEC.model_copy(update={"sizes": (20, 61)}))
    check_trial(store, SMALL, SPEC)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        (
            (10, 20),
            "dataset 'tiny' has no capacity rule for trial instances of 10 customers",
        ),
        ((), r"dataset 'tiny' has no labels in this store.*: set nightly\.sizes, or nightly\.old"),
    ],
)
def test_instances_that_cannot_be_drawn_are_refused_before_training(
    store: Store, sizes: tuple[int, ...], message: str
) -> None:
    drive(store, 1, 8)
    if not sizes:
        shutil.rmtree(Path(store.uri) / "labels")
    with pytest.raises(McvrpError, match=message):
        night(store, SPEC.model_copy(update={"sizes": sizes}))
    assert versions(store, "small") == [1]


@pytest.mark.parametrize(("replay", "batch", "expected"), [(29, 64, 32), (29, 12, 12), (30, 9, 9)])
def test_a_batch_remains_a_multiple_of_the_ranks(
    store: Store, monkeypatch: pytest.MonkeyPatch, replay: int, batch: int, expected: int
) -> None:
    """One that is larger than the data is halved: the user can choose nothing else for the ranks."""
    drive(store, 1, 8)
    tuning = Mock(side_effect=KeyboardInterrupt)
    monkeypatch.setattr(trial, "train", tuning)
    with pytest.raises(KeyboardInterrupt):
        night(store, SPEC.model_copy(update={"replay": replay, "batch": batch}))
    assert tuning.call_args.args[2].batch == expected
