"""Garbage collection: nothing referenced is removed, despite interruptions and concurrent processes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings, strategies as st

from mcvrp.flows.cli import main as cli
from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.models.models import ModelCard, versions
from mcvrp.storage.models.registry import enrol, move_champion, pointer, roll_back
from mcvrp.storage.provenance import Parent, made
from mcvrp.storage.store.lease import holding
from mcvrp.storage.store.store import Store
from mcvrp.tasks.gc.cleaning import RetentionSpec, clean
from tests.support.killed import killed_at_each_write
from tests.support.leases import FAR, taken_over

DAY = 86_400.0
NOW = time.time()
POLICY = RetentionSpec(keep_models=1)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store")


def age(store: Store, path: str, days: float) -> None:
    """Let everything at ``path`` have been written ``days`` ago."""
    place = Path(store.uri, path)
    for file in [place, *place.rglob("*")]:
        os.utime(file, (NOW - days * DAY,) * 2)


def write(store: Store, path: str, data: bytes, days: float) -> None:
    """Write a file past the store, which would wait for the disk, as of ``days`` ago."""
    place = Path(store.uri, path)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)
    os.utime(place, (NOW - days * DAY,) * 2)


def version(store: Store, number: int, run: str = "run", days: float = 100.0, dataset: str = "d") -> None:
    card = ModelCard("m", number, "c", {}, run, dataset, "f", True, {}, 1, "abc")
    files = {
        "model.safetensors": b"weights",
        "config.json": b"{}",
        "model.json": json.dumps(asdict(card)).encode(),
    }
    for name, data in files.items():
        write(store, f"{card.folder}/{name}", data, days)


def trained(store: Store, run: str) -> None:
    """Write the files of a training run, of whose content nothing is read."""
    for name in ("spec.json", "I/step-00000030/weights.safetensors", "I/step-00000030/state.json"):
        write(store, f"{layout.run_dir(run)}/{name}", b"{}", 100)


def cleaned(store: Store, **changes: object) -> list[str]:
    """Clean ``store`` and return the paths that were removed."""
    return [each.path for each in clean(store, POLICY.model_copy(update=changes), delete=True, now=NOW)]


def everything(store: Store) -> dict[str, bytes]:
    files = (file.path for file in store.files("", hidden=True))
    return {path: Path(store.uri, path).read_bytes() for path in files}


def test_nothing_is_removed_by_default(full: Store) -> None:
    before = everything(full)
    planned = clean(full, POLICY, delete=False, now=NOW)
    assert everything(full) == before
    paths = tuple(candidate.path for candidate in planned)
    assert sum(each.bytes for each in planned) == sum(
        len(d) for p, d in before.items() if p.startswith(paths)
    )
    assert cleaned(full) == list(paths)
    assert cleaned(full) == []


def test_what_users_named_is_kept(store: Store) -> None:
    """Runs, published or not, cities, datasets, days, solutions, and attention models, however old."""
    for number, run in ((1, "published"), (2, "new")):
        version(store, number, run)
    for run in ("published", "new", "unpublished"):
        trained(store, run)
    for path in (
        *("cities/c/city.json", "labels/d/data/n=020/rows-00000000-00000006.parquet"),
        *("driven/c/days/2026-01-31.parquet", "solutions/monday/routes.csv", "attention/a/n=020/model.json"),
        *("incoming/march.csv", "own.json", "benchmarks/b/results.csv"),
    ):
        write(store, path, b"{}", 1000)
    before = everything(store)
    assert cleaned(store) == ["models/m/0001"]
    assert everything(store).items() == {p: d for p, d in before.items() if "models/m/0001" not in p}.items()


def test_a_half_written_version_goes_unless_its_publisher_may_return(store: Store) -> None:
    """The last number is completed by the next publication of the same weights."""
    for number in (2, 4):
        version(store, number)
    for number in (1, 3, 5):
        write(store, layout.model_config("m", number), b"{}", 100)
    assert cleaned(store, keep_models=3) == ["models/m/0001", "models/m/0003"]


def test_a_corrupt_document_that_may_refer_to_something_ends_it_before_any_removal(full: Store) -> None:
    for path in (
        layout.model_card("m", 5),
        layout.champion_move("m", 3),
        "benchmarks/b/summary.json",
    ):
        whole = full.find(path)
        write(full, path, b"{", 100)
        before = everything(full)
        with pytest.raises(McvrpError, match=path):
            cleaned(full)
        assert everything(full) == before
        full.put(path, whole or b"{}")


NIGHTS = {name: f"night-{digit:012d}" for digit, name in enumerate(("champion", "last", "failed", "removed"))}


def nights(store: Store) -> None:
    """Write labels, a run and a record of four nights; the first's version is removed, the third had none."""
    for number, night in ((1, "removed"), (2, "champion"), (3, "failed"), (4, "last")):
        name, parents = NIGHTS[night], [Parent("labels/night-0123456789ab"), Parent("driven/lyon")]
        trained(store, name)
        write(store, layout.label_file(name, 20, 0, 6), b"labels", 100)
        manifest = {"provenance": asdict(made(parents))}
        write(store, layout.manifest(name), json.dumps(manifest).encode(), 100)
        write(store, layout.night_record("m", name), b"{}", 100)
        if night != "failed":
            version(store, number, name, dataset=name)
    write(store, layout.label_file("night-0123456789ab", 20, 0, 6), b"what the nights drew from", 100)
    write(store, layout.label_file("night-shift", 20, 0, 6), b"a user's own", 100)
    move_champion(store, "m", 2, pointer(store, "m", "champion"))


def test_a_night_stays_as_long_as_its_version(store: Store) -> None:
    """And the labels that it drew from; records, and names that users chose, are never removed."""
    nights(store)
    cleaned(store)
    left = {"night-0123456789ab", "night-shift", NIGHTS["champion"], NIGHTS["last"]}
    assert {path.split("/")[1] for path in store.list("labels")} == left
    assert set(store.folders("training")) == {
        NIGHTS["champion"],
        NIGHTS["last"],
    }
    assert set(store.folders("nights/m")) == set(NIGHTS.values())
    assert cleaned(store) == []


@pytest.mark.parametrize("lease", ["nights/m", f"labels/{NIGHTS['failed']}", f"training/{NIGHTS['failed']}"])
def test_what_a_running_process_may_need_is_left_alone(store: Store, lease: str) -> None:
    """A running night may resume any other; a process that was killed is at work for an hour."""
    nights(store)
    folder, failed = f"{lease}/.lease", {f"labels/{NIGHTS['failed']}", f"training/{NIGHTS['failed']}"}
    needed = {path for path in failed if lease in (path, "nights/m")}
    before = {path: data for path, data in everything(store).items() if path.startswith(tuple(needed))}
    with holding(store, folder, "it is in use"):
        assert not needed & {each.path for each in clean(store, POLICY, delete=False, now=NOW)}
        assert not needed & set(cleaned(store))
    store.put(f"{folder}/000001", FAR)
    assert not needed & set(cleaned(store))
    assert everything(store).items() >= before.items()
    os.utime(Path(store.uri, folder, "000001"), (time.time() - 3601,) * 2)
    assert needed <= set(cleaned(store))


def test_a_process_that_begins_meanwhile_keeps_what_it_may_need(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    nights(store)
    listed, delete = clean(store, POLICY, delete=False, now=NOW), Store.delete
    started: list[str] = []

    def starting(self: Store, path: str) -> None:
        if not started:
            started.append(path)
            taken_over(self, layout.retraining_lease("m"))
        delete(self, path)

    monkeypatch.setattr(Store, "delete", starting)
    removed = cleaned(store)
    left = {each.path for each in listed} - {*removed}
    assert started
    assert left
    for path in left:
        assert store.list(path)


@pytest.fixture
def crowded(store: Store) -> Store:
    """Versions 1 to 5 of a model; 4 is champion, 3 was it before."""
    for number in range(1, 6):
        version(store, number)
    for number in (2, 3, 4):
        move_champion(store, "m", number, pointer(store, "m", "champion"))
    age(store, "models", 100)
    return store


@pytest.mark.parametrize("moment", ["before its card goes", "after its card has gone"])
def test_a_version_that_is_promoted_meanwhile(
    crowded: Store, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Either it is kept, or the promotion fails; no alias ever points to a removed version."""
    delete, card, refused = Store.delete, layout.model_card("m", 1), list[str]()
    content = everything(crowded)

    def promoting(self: Store, path: str) -> None:
        if path == card and moment == "after its card has gone":
            delete(self, path)
        if path == card:
            try:
                move_champion(self, "m", 1, pointer(self, "m", "champion"))
            except McvrpError as error:
                refused.append(str(error))
        delete(self, path)

    monkeypatch.setattr(Store, "delete", promoting)
    cleaned(crowded)
    champion = pointer(crowded, "m", "champion").version
    assert champion in versions(crowded, "m")
    assert (champion == 1) == (not refused)
    folder = layout.model_dir("m", champion)
    kept = {path: data for path, data in content.items() if path.startswith(folder)}
    assert everything(crowded).items() >= kept.items()


MOVES = st.lists(st.tuples(st.booleans(), st.integers(1, 6)), max_size=6)  # of the champion, or published


@settings(max_examples=15, deadline=None)
@given(
    moves=MOVES,
    rollbacks=st.integers(0, 2),
    ages=st.lists(st.sampled_from([0.1, 29.0, 100.0]), min_size=6, max_size=6),
    runs=st.lists(st.sampled_from(sorted(NIGHTS)), min_size=6, max_size=6),
    reported=st.sets(st.integers(1, 6), max_size=2),
    keep=st.integers(1, 3),
)
def test_nothing_reachable_from_an_alias_ever_goes(
    tmp_path_factory: pytest.TempPathFactory,
    moves: list[tuple[bool, int]],
    rollbacks: int,
    ages: list[float],
    runs: list[str],
    reported: set[int],
    keep: int,
) -> None:
    """Any aliases, ages, reports, policy: referenced, latest and young versions keep all bytes and runs."""
    store = Store(str(tmp_path_factory.mktemp("store")))
    for run in NIGHTS.values():
        trained(store, run)
        write(store, layout.manifest(run), b"{}", 100)
    for number, (run, days) in enumerate(zip(runs, ages, strict=True), start=1):
        version(store, number, NIGHTS[run], days, dataset=NIGHTS[run])
    provenance = asdict(made(Parent(layout.model_dir("m", number)) for number in reported))
    write(store, "benchmarks/b/summary.json", json.dumps({"provenance": provenance}).encode(), 100)
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
    kept |= {number for number in range(1, 7) if ages[number - 1] < 30} | reported
    cleaned(store, keep_models=keep)
    after = everything(store)
    for number in kept:
        folder = layout.model_dir("m", number)
        assert {p: d for p, d in after.items() if p.startswith(folder)} == {
            p: d for p, d in before.items() if p.startswith(folder)
        }
    assert set(versions(store, "m")) == kept
    needed = {NIGHTS[runs[number - 1]] for number in kept}
    assert set(store.folders("training")) == needed
    assert set(store.folders("labels")) == needed


@pytest.fixture
def full(crowded: Store) -> Store:
    """A store with something to remove in every area."""
    nights(crowded)
    move_champion(crowded, "m", 4, pointer(crowded, "m", "champion"))
    age(crowded, "", 100)
    return crowded


@pytest.mark.slow
def test_cleaning_that_is_killed_is_ended_by_the_next(full: Store, tmp_path: Path) -> None:
    """Kept files exist at any write, and the next run removes the rest."""
    before, after = everything(full), list[dict[str, bytes]]()
    for there, _ in killed_at_each_write(full, tmp_path / "killed", cleaned, at_least=12):
        after += [everything(there)]
        for folder in [f"{top}/{name}" for top in ("labels", "training") for name in NIGHTS.values()]:
            inside = {path for path in before if path.startswith(folder)}
            if {path for path in inside & after[-1].keys() if path.endswith(".json")}:
                assert {path for path in inside if not path.endswith(".json")} <= after[-1].keys()
        cleaned(there)
        after += [everything(there)]
    stays = after[-1]
    assert all(stays.items() <= left.items() for left in after)
    assert all(left == stays for left in after[1::2])
    assert stays.items() < before.items()


@pytest.fixture
def environment(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("MCVRP_STORE", store.uri)
    with mock.patch.dict(os.environ):
        yield


@pytest.mark.usefixtures("environment")
def test_the_command_shows_first_and_removes_when_told(
    crowded: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    setting = ["--set", "gc.keep_models=1"]
    assert cli.run(["gc", *setting]) == 0
    out = capsys.readouterr().out
    assert "models/m/0001  no alias or report" in out
    assert "6 files, " in out
    assert "--delete removes them" in out
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
    assert cli.run(["inspect", "models/m"]) == 0
    shown = capsys.readouterr().out
    assert "late lorries (rolled back)" in shown
    assert "repaired" in shown
