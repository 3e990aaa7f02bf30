"""Course of a night: training data, decision, and that a repeated night changes nothing."""

from __future__ import annotations

import datetime
import re
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.model.instances import InstanceStream, Rules
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.cities import Addresses, StoredCity
from mcvrp.storage.labels import label_files as labels
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.labels.label_files import read_footer
from mcvrp.storage.labels.schema import Footer, table_labels
from mcvrp.storage.layout import NIGHT
from mcvrp.storage.models.models import model_card, versions
from mcvrp.storage.models.registry import enrol, move_champion, pointer
from mcvrp.storage.store.store import Store
from mcvrp.storage.trials import TrialRecord, read_pairs, trial_records
from mcvrp.tasks.retrain import trial
from mcvrp.tasks.retrain.card import read_metrics
from mcvrp.tasks.retrain.compare import sampler
from mcvrp.tasks.retrain.decide import COLUMNS, FRESH
from mcvrp.tasks.retrain.nightly import NightSummary, run_night
from mcvrp.tasks.retrain.spec import ImproveSpec, NightlySpec
from mcvrp.tasks.retrain.trial import check_trial
from mcvrp.tasks.support.pool import Pool
from mcvrp.tasks.train import phases
from mcvrp.tasks.train.phases import train
from tests.support.datasets import everything
from tests.support.killed import killed_at_each_write
from tests.support.silent_store import Outage, check_outlasted
from tests.support.training import nudge, small_spec, write_dataset

CITY = City.uniform(60, seed=3)
SMALL = StoredCity(
    "small-city", CITY, Addresses(("depot", *(f"C{node}" for node in range(1, 61)))), "imported"
)
TODAY = datetime.date(2026, 3, 1)
SPEC = NightlySpec(
    model="small", replay=30, instances=2, samples=2, batch=12, sizes=(20,), held_out_every=3, quiet_seconds=0
)
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


def decision(store: Store) -> TrialRecord:
    """Return the record of a night."""
    record = night(store).record
    assert record
    return record


def test_without_routes_there_is_no_night(store: Store) -> None:
    """No training, no promotion, no write except for the lease."""
    before = everything(store)
    summary = night(store)
    assert (summary.new, summary.record) == (False, None)
    assert everything(store) == before


def test_a_night_learns_from_fresh_days_and_old_labels(store: Store, decided: list[bool]) -> None:
    """Held-out days are not in the training data; the mix has the fraction of fresh days from the spec."""
    drive(store, 1, 12)
    summary = night(store)
    assert summary.measured
    assert summary.record
    learned = [
        label
        for n in summary.measured.mix.rows
        for table in Dataset.open(store, summary.measured.mix.dataset).read_rows(n)
        for label in table_labels(table, CITY.city_id)
    ]
    driven = [label for label in learned if label.source == "driven"]
    assert len(driven) == summary.measured.mix.fresh == len(summary.record.days) * summary.measured.mix.times
    assert 0.2 < len(driven) / len(learned) < 0.4
    assert 0 < len(summary.record.days) < 12
    kept = {day.split()[0] for day in summary.record.days}
    pairs = read_pairs(store, "small", summary.record.name)
    assert pairs is not None
    compared = set(pairs.loc[pairs["part"] == "fresh", "name"])
    assert compared | kept == {f"2026-02-{day:02}" for day in range(1, 13)}
    assert not compared & kept


def drawn_pairs(store: Store, trial: str) -> dict[tuple[int, int], float]:
    """Return the champion's cost on each trial instance (n, i)."""
    pairs = read_pairs(store, "small", trial)
    assert pairs is not None
    rows = pairs[pairs["part"] != FRESH]
    names = [re.fullmatch(r"\(n=(\d+), i=(\d+)\)", name) for name in rows["name"]]
    return {
        (int(name[1]), int(name[2])): cost for name, cost in zip(names, rows["champion"], strict=True) if name
    }


def two_nights(store: Store) -> tuple[TrialRecord, TrialRecord]:
    """Return the records of a night on eight days and of one on four more."""
    drive(store, 1, 8)
    first = decision(store)
    drive(store, 9, 12, "more.csv")
    return first, decision(store)


def test_a_night_draws_instances_that_no_benchmark_and_no_other_night_has(
    store: Store, decided: list[bool]
) -> None:
    """Trial instances come from a stream of their own, other ones each night."""
    first, second = two_nights(store)
    solver = sampler(store, model_card(store, "small", 1), SPEC.p, SPEC.samples, Pool(1))
    rules = Rules.of(CITY, None, None)
    drawn = drawn_pairs(store, first.name)
    assert len(drawn) == SPEC.instances
    for (n, i), known in drawn.items():
        costs = {}
        for split, k in (("trial", i), ("test", i % SPEC.instances)):
            instance = InstanceStream(CITY, SPEC.seed, split, rules)(n, k)  # type: ignore[arg-type]
            (answer,) = solver.solve(CITY, [instance], samples=SPEC.samples, seed=SPEC.seed)
            costs[split] = float(answer.costs.min())
        assert known == costs["trial"] != costs["test"]
    assert not drawn.keys() & drawn_pairs(store, second.name).keys()


def test_a_night_that_is_cut_off_compares_on_the_same_instances(
    store: Store, decided: list[bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trial instances follow from the name of a night: a resumed night has equal costs."""
    drive(store, 1, 8)
    shutil.copytree(store.uri, tmp_path / "other")
    other = Store.open(tmp_path / "other")
    stopped(other, monkeypatch, trial, "write_pairs")
    ended = decision(other)
    assert ended == decision(store)
    assert drawn_pairs(other, ended.name) == drawn_pairs(store, ended.name)


def test_promoted_and_run_again_nothing_changes(store: Store, decided: list[bool]) -> None:
    """The challenger becomes champion; a second run writes nothing; a third one does not undo a rollback."""
    drive(store, 1, 8)
    summary = night(store)
    assert summary.record
    assert summary.record.applied
    assert pointer(store, "small", "champion").version == 2
    before = everything(store)
    again = night(store)
    assert (again.new, again.record) == (False, summary.record)
    assert everything(store) == before
    move_champion(store, "small", 1, pointer(store, "small", "champion"))
    night(store)
    assert pointer(store, "small", "champion").version == 1


def test_a_night_describes_itself(store: Store, decided: list[bool]) -> None:
    """Its folder has spec, metrics, decision, a plot, and a README with all of them."""
    drive(store, 1, 8)
    summary = night(store)
    assert summary.record
    folder = f"nights/small/{summary.record.name}"
    files = {"README.md", "spec.json", "metrics.json", "comparison.parquet", "comparison.png", "night.json"}
    assert {path.removeprefix(f"{folder}/") for path in store.list(folder)} == files
    assert read_metrics(store, "small", summary.record.name) == summary.measured
    assert store.get_json(f"{folder}/spec.json") == SPEC.model_dump(mode="json")
    readme = store.get(f"{folder}/README.md").decode()
    for text in (
        "# Night 1 of `small`",
        "was promoted: so it was said",
        "](comparison.png)",
        "fresh days",
        "trial instances of this trial only",
        "split `trial`",
    ):
        assert text in readme


def test_footers_of_driven_days_are_read_once(
    store: Store, decided: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One request per day."""
    drive(store, 1, 8)
    night(store)
    read: list[str] = []

    def counted(store: Store, path: str) -> Footer:
        read.append(path)
        return read_footer(store, path)

    monkeypatch.setattr(labels, "read_footer", counted)
    night(store)
    assert sorted(read) == store.list("driven/small-city/days")


def test_not_promoted_says_why(store: Store, decided: list[bool]) -> None:
    """The champion stays, and the record has the reason."""
    decided.append(False)
    drive(store, 1, 8)
    record = decision(store)
    assert (record.promote, record.reasons) == (False, ("so it was said",))
    assert pointer(store, "small", "champion").version == 1
    assert not night(store).new


def test_nights_follow_each_other(store: Store, decided: list[bool]) -> None:
    """New days start a new night, on the new champion, with old labels of the same dataset."""
    first, second = two_nights(store)
    assert (second.number, second.champion, second.challenger) == (2, 2, 3)
    assert first.old == second.old == "tiny"
    assert set(first.days) < set(second.days)
    assert versions(store, "small") == [1, 2, 3]


def publish_another(store: Store) -> None:
    """Publish an unrelated version."""
    taken = [int(folder) for folder in store.folders(layout.models_dir("small"))]
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

    def cut_off(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, step, cut_off)
        with pytest.raises(KeyboardInterrupt):
            night(store)


@pytest.mark.parametrize("meanwhile", [False, True])
def test_a_promotion_that_is_killed_is_carried_out(waiting: Store, tmp_path: Path, meanwhile: bool) -> None:
    """At any write: no state in between, and a version published meanwhile challenges the new champion."""
    for there, _ in killed_at_each_write(waiting, tmp_path, night, at_least=5):
        champion = pointer(there, "small", "champion").version
        assert (champion, pointer(there, "small", "challenger").version) in ((1, 2), (2, None))
        assert promoted_once(there, meanwhile) == [1, 2, 3] if meanwhile else [1, 2]


@pytest.mark.slow
def test_a_night_that_is_killed_goes_on(
    store: Store, decided: list[bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At any write: one version is promoted, by one night."""
    monkeypatch.setattr(trial, "compared", lambda *_: PAIRS)
    drive(store, 1, 8)
    for there, _ in killed_at_each_write(store, tmp_path, night, at_least=40):
        assert promoted_once(there, meanwhile=False) == [1, 2]


@pytest.mark.parametrize("most", [6, pytest.param(80, marks=pytest.mark.slow)])
def test_a_night_outlasts_a_silent_store(
    store: Store,
    decided: list[bool],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    outage: Outage,
    most: int | None,
) -> None:
    """If any request is not answered for a while, days, version and decision are the same."""
    monkeypatch.setattr(trial, "compared", lambda *_: PAIRS)
    drive(store, 1, 8)

    def result(there: Store) -> object:
        done = night(there)
        return done.taken.stored, done.record, pointer(there, "small", "champion").version

    check_outlasted(
        store,
        tmp_path / "silent",
        outage,
        result,
        at_least=100,
        exact=(".safetensors", "0000.parquet"),
        most=most,
    )


@pytest.mark.slow
def test_who_publishes_while_a_night_is_dead_takes_nothing_from_it(
    store: Store, decided: list[bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed at any write after training, it publishes one version and promotes it."""
    monkeypatch.setattr(trial, "compared", lambda *_: PAIRS)
    drive(store, 1, 8)
    stopped(store, monkeypatch, phases, "publish")
    for there, _ in killed_at_each_write(store, tmp_path, night, at_least=15):
        assert len(promoted_once(there, meanwhile=True)) == 3


def test_a_night_that_has_published_does_not_publish_again(
    store: Store, decided: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted before the comparison, with a newer version published since: it resumes its own."""
    drive(store, 1, 8)
    stopped(store, monkeypatch, trial, "compared")
    assert promoted_once(store, meanwhile=True) == [1, 2, 3]


def promoted_once(store: Store, meanwhile: bool) -> list[int]:
    """Check that the next night completes a killed one, also with a version published ``meanwhile``.

    Returns the versions of the model.
    """
    if meanwhile:
        publish_another(store)
    night(store)
    (record,) = trial_records(store, "small", NIGHT)
    assert (record.number, record.champion, record.applied) == (1, 1, True)
    champion = model_card(store, "small", "champion")
    assert (champion.version, champion.run) == (record.challenger, record.name)
    known = versions(store, "small")
    newer = [version for version in known if version > champion.version]
    assert pointer(store, "small", "challenger").version == (newer[0] if newer else None)
    before = everything(store)
    assert night(store).record == record
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


def test_another_citys_model_is_refused(store: Store) -> None:
    """The champion has to be of this city."""
    other = replace(SMALL, name="other", city=City.uniform(60, seed=4))
    drive(store, 1, 8)
    with pytest.raises(McvrpError, match=f"city {CITY.city_id}"):
        run_night(store, other, SPEC, Path("/nowhere"), today=TODAY, launch=nudge)


def test_a_size_beyond_the_city_is_refused_before_any_work(store: Store) -> None:
    """The error message names the stage."""
    with pytest.raises(McvrpError, match=r"nightly\.sizes has 61, but the city has 60 customers"):
        check_trial(store, CITY, SPEC.model_copy(update={"sizes": (20, 61)}))
    with pytest.raises(McvrpError, match=r"improve\.sizes has 61"):
        check_trial(store, CITY, ImproveSpec(model="small", sizes=(61,)))
    check_trial(store, CITY, SPEC)
