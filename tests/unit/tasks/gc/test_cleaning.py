"""Garbage collection: nothing referenced is removed, despite interruptions and concurrent processes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings, strategies as st

from mcvrp.flows.cli import main as cli
from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.benchmarks import read_results, write_part, write_results
from mcvrp.storage.labels.cache import LabelCache
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.labels.label_files import write_labels
from mcvrp.storage.models.attention import AttentionCard
from mcvrp.storage.models.models import ModelCard, versions
from mcvrp.storage.models.registry import enrol, move_champion, pointer, roll_back
from mcvrp.storage.parquet import write_parquet
from mcvrp.storage.store.lease import Holder, holding
from mcvrp.storage.store.store import Store
from mcvrp.storage.training.checkpoints import (
    OPTIMIZER,
    STATE,
    WEIGHTS,
    CheckpointState,
    Origin,
    checkpoints,
)
from mcvrp.storage.trials import TrialRecord
from mcvrp.tasks.gc.cleaning import CleaningSummary, RetentionSpec, clean
from tests.support.datasets import CITY, label_spec, make_dataset, sweep_label
from tests.support.killed import killed_at_each_write
from tests.support.results import ROW
from tests.support.silent_store import Outage, check_outlasted

DAY = 86_400.0
NOW = time.time()
POLICY = RetentionSpec(keep_models=1, keep_days=30.0, solution_days=10.0)
ORIGIN = Origin("city", "labels", {"dim": 8}, {"lr": 0.1}, "")
FILE: Any = {"bytes": 8, "sha256": "abc"}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store")


def age(store: Store, path: str, days: float) -> None:
    """Let everything at ``path`` have been written ``days`` ago."""
    place = Path(store.uri, path)
    for file in [place, *place.rglob("*")]:
        os.utime(file, (NOW - days * DAY,) * 2)


def as_json(document: CheckpointState | ModelCard | AttentionCard) -> bytes:
    return json.dumps(asdict(document)).encode()


def write(store: Store, path: str, data: bytes, days: float) -> None:
    """Write a file past the store, which would wait for the disk, as of ``days`` ago."""
    place = Path(store.uri, path)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)
    os.utime(place, (NOW - days * DAY,) * 2)


def version(
    store: Store, number: int, run: str = "run", days: float = 100.0, weights: str = FILE["sha256"]
) -> None:
    card = ModelCard("m", number, "c", {}, run, "d", "f", True, {}, 1, weights)
    files = {"model.safetensors": b"weights", "config.json": b"{}", "model.json": as_json(card)}
    for name, data in files.items():
        write(store, f"{card.folder}/{name}", data, days)


def checkpoint(store: Store, run: str, step: int, steps: int = 30, days: float = 100.0) -> str:
    state = CheckpointState(run, "I", step, steps, step, ORIGIN, {}, {WEIGHTS: FILE, OPTIMIZER: FILE})
    for name, data in ((WEIGHTS, b"8 bytes."), (OPTIMIZER, b"8 bytes."), (STATE, as_json(state))):
        write(store, f"{state.folder}/{name}", data, days)
    return state.folder


def cleaned(store: Store, **changes: object) -> CleaningSummary:
    return clean(store, POLICY.model_copy(update=changes), delete=True, now=NOW)


def everything(store: Store) -> dict[str, bytes]:
    files = (file.path for file in store.files("", hidden=True))
    return {path: store.get(path) for path in files if path != ".lock"}


def steps(store: Store, run: str = "run") -> list[int]:
    return [state.step for state in checkpoints(store, run, "I")]


def test_nothing_is_removed_by_default(full: Store) -> None:
    before = everything(full)
    planned = clean(full, POLICY, delete=False, now=NOW)
    assert everything(full) == before
    paths = tuple(candidate.path for candidate in planned.candidates)
    assert planned.bytes == sum(len(data) for path, data in before.items() if path.startswith(paths))
    lasting = clean(full, POLICY.model_copy(update={"solution_days": None}), delete=False, now=NOW)
    assert {*paths} - {candidate.path for candidate in lasting.candidates} == {"solutions/monday"}
    assert cleaned(full).candidates == planned.candidates
    assert cleaned(full).candidates == ()


def test_checkpoints_to_resume_from_and_newer_ones_stay(store: Store) -> None:
    """The latest and the best of an unfinished phase, the last of a finished one, those of a newer mcvrp."""
    for step in (5, 10, 15, 20):
        checkpoint(store, "run", step)
        checkpoint(store, "ended", step, steps=20)
    folder = checkpoint(store, "newer", 5)
    state = store.get_json(f"{folder}/state.json")
    store.put_json(f"{folder}/state.json", {**state, "format": 99})
    for run in ("run", "begun"):
        store.put(f"training/{run}/I/step-00000007/weights.safetensors", b"left by a kill")
    age(store, "training", 100)
    done = cleaned(store)
    assert {candidate.kind for candidate in done.candidates} == {"checkpoint", "half-written checkpoint"}
    assert (steps(store), steps(store, "ended")) == ([15, 20], [20])
    assert store.exists(f"{folder}/state.json")
    assert any("newer version of mcvrp" in skipped.why for skipped in done.skipped)


def test_a_run_goes_with_its_models(store: Store) -> None:
    for number, run in ((1, "old"), (2, "new")):
        checkpoint(store, run, 30)
        store.put(layout.phase_metrics(run, "I"), b"metrics")
        version(store, number, run)
    checkpoint(store, "unpublished", 30)
    age(store, "training", 100)
    move_champion(store, "m", 2, pointer(store, "m", "champion"))
    cleaned(store)
    assert (steps(store, "old"), steps(store, "new"), steps(store, "unpublished")) == ([], [30], [30])
    assert store.exists(layout.phase_metrics("old", "I"))


def test_an_imported_model_has_no_run_here(store: Store) -> None:
    """The run on its card is of another store: no record of it is made, and a namesake here stays."""
    for number, run in ((1, "elsewhere"), (2, "namesake"), (3, "newest")):
        version(store, number, run, weights="def")
    checkpoint(store, "namesake", 30)
    move_champion(store, "m", 3, pointer(store, "m", "champion"))
    planned = clean(store, POLICY, delete=False, now=NOW)
    assert cleaned(store).candidates == planned.candidates
    assert (cleaned(store).candidates, planned.skipped) == ((), ())
    assert versions(store, "m") == [3]
    assert store.folders("training") == ["namesake"]
    assert steps(store, "namesake") == [30]


def test_a_run_under_a_lease_is_left_alone(store: Store) -> None:
    """A run under a lease is skipped, here and on another machine, unless the holder is dead."""
    for step in (5, 10, 15, 20):
        checkpoint(store, "run", step)
    path = layout.trainer_lease("run")
    before = everything(store)
    with holding(store, path, "run"):
        (here,) = cleaned(store).skipped
    store.put(path, replace(Holder.here(), machine="another").encode())
    (elsewhere,) = clean(store, POLICY, delete=True, now=time.time()).skipped
    for skipped in (here, elsewhere):
        assert skipped.path == "training/run"
        assert "in use by process" in skipped.why
    assert {**everything(store), path: b""} == {**before, path: b""}
    store.put(path, replace(Holder.here(), process=2**22 + 1, started="never").encode())
    cleaned(store)
    assert steps(store) == [15, 20]


def test_what_is_young_is_left_alone(full: Store) -> None:
    age(full, "", 0.5)
    assert cleaned(full, solution_days=1e-6).candidates == ()


def test_labels_lose_scraps_only(store: Store) -> None:
    spec = label_spec(largest=20, count=10)
    make_dataset(store, spec)

    def stage(rows: range) -> str:
        path = layout.staged_chunk("d", 20, rows.start, rows.stop)
        labels = [sweep_label(20, i, spec) for i in rows]
        write_labels(store, path, CITY, spec.recipe(CITY).spec_hash, labels)
        return path

    merged, waiting = stage(range(2, 5)), stage(range(8, 12))
    out, scrap = layout.corrupt("d", merged), "labels/d/data/n=020/.part-00000.parquet.1234.tmp"
    store.put(out, b"corrupt")
    Path(store.uri, scrap).write_bytes(b"half")
    age(store, "labels", 100)
    candidates = {candidate.path: candidate.kind for candidate in cleaned(store).candidates}
    assert candidates == {merged: "staged labels", out: "corrupt labels", scrap: "half-written file"}
    assert store.exists(waiting)
    assert [shard for shard in store.list("labels/d/data/n=020") if shard.endswith(".parquet")]


NIGHTS = {name: f"night-{digit:012d}" for digit, name in enumerate(("champion", "last", "failed", "removed"))}


def nights(store: Store) -> None:
    """Write labels, a run and a record of four nights, of which one made the champion and one was removed.

    Records are of the same second, as in a copied store.
    """
    for number, night in ((2, "champion"), (4, "last"), (3, "failed"), (1, "removed")):
        name, old = NIGHTS[night], "improve-0123456789ab"
        checkpoint(store, name, 30)
        write(store, layout.label_shard(name, 20, 0), b"labels", 100)
        write(store, layout.manifest(name), b"{}", 100)
        record = TrialRecord(name, number, 1, number, old, promote=False, reasons=())
        write(store, layout.trial_record("m", name), json.dumps(asdict(record)).encode(), 40)
    write(store, layout.label_shard("improve-0123456789ab", 20, 0), b"what the last night drew from", 100)
    write(store, layout.label_shard("night-shift", 20, 0), b"somebody's own", 100)
    for number, run in ((1, NIGHTS["removed"]), (2, NIGHTS["champion"])):
        version(store, number, run)
    move_champion(store, "m", 2, pointer(store, "m", "champion"))


def test_a_night_stays_as_long_as_its_model_and_the_last_one_until_the_next(store: Store) -> None:
    """Datasets and runs of other nights are removed; records, and names that users chose, never are."""
    nights(store)
    cleaned(store)
    left = {"improve-0123456789ab", "night-shift", NIGHTS["champion"], NIGHTS["last"]}
    assert {path.split("/")[1] for path in store.list("labels")} == left
    assert {run for run in NIGHTS.values() if steps(store, run)} == {NIGHTS["champion"], NIGHTS["last"]}
    assert set(store.folders("nights/m")) == set(NIGHTS.values())
    assert store.list("labels/night-shift") == ["labels/night-shift/data/n=020/part-00000.parquet"]
    assert cleaned(store).candidates == ()


def test_nights_are_left_alone_while_a_model_is_retrained_or_they_are_young(store: Store) -> None:
    """The lease of a running night keeps all of them, as it may resume any; so does ``keep_days``."""
    nights(store)
    before = everything(store)
    with holding(store, layout.retraining_lease("m"), "retraining"):
        skipped = cleaned(store).skipped
        trials = {f"{folder}/{NIGHTS['failed']}" for folder in ("labels", "training")}
        assert {item.path for item in skipped} >= trials
        assert "model 'm' is being retrained by process" in skipped[-1].why
        kept = {path: data for path, data in before.items() if not path.startswith("models/")}
        assert everything(store).items() >= kept.items()
    age(store, "labels", 20)
    age(store, "training", 20)
    assert not any("night" in candidate.kind for candidate in cleaned(store).candidates)


def test_of_attention_models_leftovers_go(store: Store) -> None:
    card = AttentionCard("a", 20, "c", {}, {}, 1, 0.0, (), 1.0, "here")
    for n in (20, 30, 40):
        write(store, f"{layout.attention_size_dir('a', n)}/model.safetensors", b"weights", 100)
    for n in (20, 30):
        write(store, layout.attention_training("a", n), b"where it stands", 100)
    write(store, layout.attention_card("a", 20), as_json(card), 100)
    assert [candidate.path for candidate in cleaned(store).candidates] == [
        layout.attention_training("a", 20),
        layout.attention_size_dir("a", 40),
    ]
    assert layout.attention_training("a", 30) in store.list("attention")
    with holding(store, layout.attention_lease("a"), "training"):
        assert [item.path for item in cleaned(store).skipped] == ["attention/a"]


def test_a_benchmark_that_never_came_to_results_goes(store: Store) -> None:
    part = layout.benchmark_part("b", "hgs-abc", 20, 0, 1)
    write_part(store, part, [ROW])
    write_results(store, "b", [ROW], ["hgs-other-"])
    write_part(store, layout.benchmark_part("dropped", "hgs-abc", 20, 0, 1), [ROW])
    age(store, "benchmarks", 100)
    store.put("benchmarks/b/table.md", b"")  # it is running
    assert [candidate.path for candidate in cleaned(store).candidates] == ["benchmarks/dropped"]
    write_parquet(store, layout.benchmark_results("b"), read_results(store, "b").replace_schema_metadata())
    age(store, "benchmarks", 100)
    (skipped,) = cleaned(store).skipped
    assert "does not name the parts that it came from: run mcvrp benchmark again" in skipped.why
    write_results(store, "b", [ROW])
    age(store, "benchmarks", 100)
    assert cleaned(store).candidates == ()
    assert store.exists(part)


def test_caches_of_datasets_that_are_gone_go(store: Store, tmp_path: Path) -> None:
    make_dataset(store, label_spec(largest=20))
    cache = tmp_path / "cache"
    foreign = cache / "d-00000000" / "f"
    foreign.mkdir(parents=True)

    def run() -> CleaningSummary:
        return clean(store, POLICY, delete=True, cache=cache, now=time.time() + 10 * DAY)

    with LabelCache.open(cache, store, "d", Dataset.open(store, "d").fingerprint(), {20: 10}):
        assert run().candidates == ()
        store.delete("labels/d")
        assert run().candidates == ()
    assert [candidate.kind for candidate in run().candidates] == ["cached labels"]
    assert list(cache.iterdir()) == [foreign.parent]


@pytest.fixture
def crowded(store: Store) -> Store:
    """Versions 1 to 5 of a model; 4 is champion, 3 was it before."""
    for number in range(1, 6):
        version(store, number)
    for number in (2, 3, 4):
        move_champion(store, "m", number, pointer(store, "m", "champion"))
    age(store, "models", 100)
    return store


@pytest.mark.parametrize("when", ["before the mark", "after the mark"])
def test_a_version_that_is_promoted_meanwhile(
    crowded: Store, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Either it is kept, or the promotion fails; no alias ever points to a removed version."""
    put = Store.put_json
    refused: list[str] = []

    def promoting(self: Store, path: str, value: object) -> None:
        mark = path == layout.model_removal("m", 1)
        if mark and when == "after the mark":
            put(self, path, value)
        if mark:
            try:
                move_champion(self, "m", 1, pointer(self, "m", "champion"))
            except McvrpError as error:
                refused.append(str(error))
        if not mark or when != "after the mark":
            put(self, path, value)

    monkeypatch.setattr(Store, "put_json", promoting)
    cleaned(crowded)
    champion = pointer(crowded, "m", "champion").version
    assert champion in versions(crowded, "m")
    assert (champion == 1) == (not refused)
    assert not crowded.exists(layout.model_removal("m", champion))


MOVES = st.lists(st.tuples(st.booleans(), st.integers(1, 6)), max_size=6)  # of the champion, or published


@settings(max_examples=15, deadline=None)
@given(
    moves=MOVES,
    rollbacks=st.integers(0, 2),
    ages=st.lists(st.sampled_from([0.1, 2.0, 100.0]), min_size=6, max_size=6),
    runs=st.lists(st.sampled_from(["a", "b"]), min_size=6, max_size=6),
    keep=st.integers(1, 3),
)
def test_nothing_reachable_from_an_alias_ever_goes(
    tmp_path_factory: pytest.TempPathFactory,
    moves: list[tuple[bool, int]],
    rollbacks: int,
    ages: list[float],
    runs: list[str],
    keep: int,
) -> None:
    """Any aliases, ages and policy: referenced, latest and young versions keep all bytes."""
    store = Store(str(tmp_path_factory.mktemp("store")))
    for run in ("a", "b"):
        for step in (10, 20, 30):
            checkpoint(store, run, step, days=100)
    for number, (run, days) in enumerate(zip(runs, ages, strict=True), start=1):
        version(store, number, run, days)
    for champion, number in moves:
        if champion:
            move_champion(store, "m", number, pointer(store, "m", "champion"))
        else:
            enrol(store, "m", number)
    with contextlib.suppress(McvrpError):
        for _ in range(rollbacks):
            roll_back(store, "m")
    before = everything(store)
    now, challenger = pointer(store, "m", "champion"), pointer(store, "m", "challenger")
    kept = {now.version or 0, challenger.version or 0, *now.before[:1], *range(7 - keep, 7)} - {0}
    kept |= {number for number in range(1, 7) if ages[number - 1] < 1}
    cleaned(store, keep_models=keep)
    after = everything(store)
    for number in kept:
        folder = layout.model_dir("m", number)
        assert {p: d for p, d in after.items() if p.startswith(folder)} == {
            p: d for p, d in before.items() if p.startswith(folder)
        }
        assert steps(store, runs[number - 1])[-1:] == [30]
    assert set(versions(store, "m")) == kept


@pytest.fixture
def full(crowded: Store) -> Store:
    """A store with something to remove in every area."""
    for step in (5, 10, 15, 20):
        checkpoint(crowded, "run", step)
    nights(crowded)
    write(crowded, "solutions/monday/routes.csv", b"", 100)
    write(crowded, "labels/d/.x.1234.tmp", b"", 100)
    write(crowded, "labels/d/_corrupt/x", b"", 100)
    return crowded


@pytest.mark.slow
def test_cleaning_that_is_killed_is_ended_by_the_next(full: Store, tmp_path: Path) -> None:
    """Kept files exist at any write, and the next run removes the rest."""

    def files(store: Store) -> dict[str, bytes]:
        aside = ("models_removed.json", "/lease.json", ".killed.tmp")  # the lease of a dead process is free
        return {path: data for path, data in everything(store).items() if not path.endswith(aside)}

    before, after = files(full), list[dict[str, bytes]]()
    for there, _ in killed_at_each_write(full, tmp_path / "killed", cleaned, at_least=30):
        after += [files(there)]
        cleaned(there)
        after += [files(there)]
    stays = after[-1]
    assert all(stays.items() <= left.items() for left in after)
    assert all(left == stays for left in after[1::2])
    assert stays.items() < before.items()


@pytest.mark.parametrize("most", [6, pytest.param(100, marks=pytest.mark.slow)])
def test_cleaning_outlasts_a_silent_store(full: Store, tmp_path: Path, outage: Outage, most: int) -> None:
    check_outlasted(full, tmp_path / "silent", outage, cleaned, at_least=60, most=most)


@pytest.fixture
def environment(store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("MCVRP_STORE", store.uri)
    monkeypatch.setenv("MCVRP_CACHE", str(tmp_path / "cache"))
    with mock.patch.dict(os.environ):
        yield


@pytest.mark.usefixtures("environment")
def test_the_command_shows_first_and_removes_when_told(
    crowded: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    setting = ["--set", "gc.keep_models=1"]
    assert cli.run(["gc", *setting]) == 0
    out = capsys.readouterr().out
    assert "models/m/0001  no alias points to it" in out
    assert "6 files, " in out
    assert "run mcvrp gc --delete" in out
    assert cli.run(["gc", "--delete", "--json", *setting]) == 0
    assert json.loads(capsys.readouterr().out)["files"] == 6
    assert versions(crowded, "m") == [3, 4, 5]
    assert cli.run(["gc", *setting]) == 0
    assert capsys.readouterr().out == "nothing to remove\n"


@pytest.mark.usefixtures("environment")
def test_the_champion_goes_back_in_one_command(crowded: Store, capsys: pytest.CaptureFixture[str]) -> None:
    cleaned(crowded)
    assert cli.run(["rollback", "m", "--why", "late lorries"]) == 0
    assert capsys.readouterr().out == "champion of m is version 3, it was version 4\n"
    assert cli.run(["rollback", "m"]) == 2
    error = capsys.readouterr().err
    assert re.search(r"model 'm' has no champion before version 3 .*: version 2 was removed", error)
    assert cli.run(["promote", "m", "4", "--why", "repaired"]) == 0
    assert cli.run(["promote", "m", "4"]) == 2
    assert "version 4 is already the champion of model 'm'" in capsys.readouterr().err
    assert cli.run(["models"]) == 0
    shown = capsys.readouterr().out
    assert "late lorries (rolled back)" in shown
    assert "repaired" in shown
    assert enrol(crowded, "m", 3) is None


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("rollback nothing", "model 'nothing' has no champion"),
        ("promote m 9", "no version 9"),
        ("promote m challenger", "no challenger to promote"),
        ("promote m champion", "'champion' is not a version"),
        ("models show n", "there is no model 'n'"),
        ("gc --set gc.keep_models=0", "gc.keep_models must be at least 1"),
        ("gc --set gc.grace_hours=0", "gc.grace_hours must be at least 1"),
    ],
)
def test_an_impossible_command_fails_in_a_sentence(
    crowded: Store, arguments: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = everything(crowded)
    assert cli.run(arguments.split()) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert reason in err
    assert everything(crowded) == before
