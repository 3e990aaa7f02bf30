"""Tests of `mcvrp inspect` and `mcvrp verify`: artifacts, files and folders."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from mcvrp.flows.cli import main as cli
from mcvrp.flows.cli.inspect import inspect
from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.cities import save_city
from mcvrp.storage.nights import NightRecord, write_record
from mcvrp.storage.provenance import Parent
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.verify import FileFault, VerificationReport, verify_dataset
from mcvrp.tasks.retrain.card import NightMetrics
from mcvrp.tasks.retrain.decide import DRAWN, Bucket
from mcvrp.tasks.retrain.labels import Mix, write_mix
from mcvrp.tasks.retrain.week import CHANGE
from tests.support.datasets import (
    CITY,
    everything,
    label_path,
    label_spec,
    make_dataset,
    sweep_label,
    write_card_of,
)


@pytest.fixture(scope="module")
def carded(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store.open(tmp_path_factory.mktemp("store"))
    make_dataset(store, label_spec())
    write_card_of(store, "d")
    make_dataset(store, label_spec(dataset="bare", largest=20))
    return store


def test_the_card_of_a_dataset_is_printed(carded: Store) -> None:
    outcome = inspect(carded, "labels/d")
    assert "# Labels `d`" in outcome.text
    assert carded.url("labels/d") in outcome.text
    assert "labels/d/manifest.json" in outcome.document["files"]
    json.dumps(outcome.document)
    assert inspect(carded, "labels/d/") == outcome
    assert "labels/bare/data/n=020/rows-00000000-00000006.parquet" in inspect(carded, "labels/bare").text


def test_the_dataset_of_a_night_is_not_to_be_labelled_or_verified(tmp_path: Path) -> None:
    """It has neither spec nor card; another dataset without its spec has lost it."""
    store, night = Store.open(tmp_path), "night-0123456789ab"
    parents = [Parent("labels/laptop"), Parent("driven/lyon")]
    write_mix(store, CITY, night, parents, [sweep_label(20, i, label_spec()) for i in range(3)], (), 0)
    before = everything(store)
    text = inspect(store, f"labels/{night}/manifest.json").text
    assert "labels/laptop" in text
    assert "driven/lyon" in text
    with pytest.raises(McvrpError, match=layout.label_spec(night)):
        verify_dataset(store, night)
    assert everything(store) == before
    write_mix(store, CITY, "night-shift", (), [sweep_label(20, 0, label_spec())], (), 0)
    with pytest.raises(McvrpError, match=layout.label_spec("night-shift")):
        verify_dataset(store, "night-shift")
    with pytest.raises(McvrpError, match=r"dataset 'night-shft' .*there are: .*night-shift"):
        verify_dataset(store, "night-shft")


def test_files_and_folders_are_described(carded: Store) -> None:
    assert "labels/d/data/n=020/rows-00000000-00000006.parquet" in inspect(carded, "labels/d/data/n=020").text
    shard = inspect(carded, label_path())
    assert shard.document["rows"] == 6
    assert shard.document["footer"]["row_stop"] == "6"
    with pytest.raises(McvrpError, match="nothing at"):
        inspect(carded, "nowhere")


@pytest.fixture
def full(tmp_path: Path) -> Store:
    store = Store.open(tmp_path / "store")
    save_city(store, "lyon", CITY)
    for path in ("labels/laptop/spec.json", "training/laptop/spec.json", "benchmarks/alps/summary.json"):
        store.put_json(path, {"here": path})
    store.put(
        "training/laptop/README.md", b"# Run\n\n![Losses](losses.png)\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    )
    for number in (2, 1):
        promoted, name = number == 1, f"night-{number}"
        why = "faster" if promoted else "slower"
        record = NightRecord(name, number, number, number + 1, "d", promoted, (why,), (), applied=promoted)
        buckets = (Bucket(DRAWN, "20", 30, 4.0, 3.0 + number, -25.0),)
        metrics = NightMetrics(Mix(name, {20: 60}, 18, 1), buckets, {DRAWN: 0.01}, 1.0)
        store.put_json(layout.night_metrics("fm", name), asdict(metrics))
        write_record(store, "fm", record)
    store.put("driven/paris/README.md", "# Driven routes\n\nZoë\n".encode())
    store.put("attention/old/n=020/training.safetensors", b"unfinished")
    return store


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("", "labels"),
        ("labels", "labels/laptop"),
        ("cities/lyon", "cities/lyon/city.json"),
        ("benchmarks/alps", "benchmarks/alps/summary.json"),
        ("benchmarks/alps/summary.json", '"here": "benchmarks/alps/summary.json"'),
        ("training/laptop", "losses.png"),
        ("nights/fm", "slower"),
        ("driven/paris", "Zoë"),
        ("attention/old", "training.safetensors"),
    ],
)
def test_an_artifact_of_any_kind_is_described(full: Store, path: str, part: str) -> None:
    """By its path in the store, with or without the address of the store."""
    outcome = inspect(full, path)
    assert part in outcome.text or part in json.dumps(outcome.document, indent=2)
    assert inspect(full, full.url(path)) == outcome


def test_nights_are_a_table(full: Store) -> None:
    """Cost before and after, decision and reason of each, by number, and the last week."""
    outcome = inspect(full, "nights/fm")
    assert [night["number"] for night in outcome.document["nights"]] == [1, 2]
    header, _, first, second, _, *reasons, _, _, _, change = outcome.text.splitlines()
    assert header.split()[:3] == ["Night", "Champion", "Challenger"]
    assert first.split()[:7] == ["1", "4.0000", "4.0000", "-25.000", "0.01", "version", "2"]
    assert second.split()[:6] == ["2", "4.0000", "5.0000", "-25.000", "0.01", "no"]
    assert reasons == ["nights/fm/night-1: faster", "nights/fm/night-2: slower"]
    assert change.endswith(outcome.document["week"][CHANGE])


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("labels/lptop", "nothing at .*labels/lptop: mcvrp inspect lists"),
        ("s3://bucket/labels/d", "s3://bucket/labels/d"),
        ("/etc/passwd", "/etc/passwd"),
        ("../outside", "leads out of the store"),
        ("lyon@champion", "no model 'lyon'"),
    ],
)
def test_a_missing_artifact_is_named(full: Store, path: str, message: str) -> None:
    with pytest.raises(McvrpError, match=message):
        inspect(full, path)


@pytest.mark.parametrize("extension", ["json", "parquet"])
def test_a_corrupt_file_is_reported(tmp_path: Path, extension: str) -> None:
    store, path = Store.open(tmp_path), f"labels/d/x.{extension}"
    store.put(path, b"\xff{ not what it says")
    with pytest.raises(McvrpError, match=rf"x\.{extension} is (no |not )"):
        inspect(store, path)


@pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda data: data[:99] + b"!" + data[100:]])
def test_a_damaged_label_file_is_named_with_the_command_that_removes_it(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    """Also if only the checksum of a page is wrong, whose rows are not among those that are shown."""
    store = Store.open(tmp_path)
    make_dataset(store, label_spec())
    store.put(label_path(0), damage(store.get(label_path(0))))
    with pytest.raises(McvrpError, match=rf"{label_path(0)} is .*: mcvrp verify d --delete removes it"):
        inspect(store, label_path(0))


def test_a_verification_has_a_line_per_fault_and_exit_code_1(
    carded: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Labels that are missing follow."""
    monkeypatch.setenv("MCVRP_STORE", carded.uri)
    good = VerificationReport("d", rows=9, files=2)
    faults = (FileFault("a.parquet", "is wrong"), FileFault("b.parquet", "is cut"))
    bad = replace(good, faults=faults, missing=((20, 5, 6), (21, 0, 4)), absent=1)
    foreign = replace(good, faults=(FileFault("c.parquet", "is misnamed", misplaced=True),))
    for report, code in ((good, 0), (foreign, 1), (bad, 1)):
        monkeypatch.setattr("mcvrp.tasks.label.verify.verify_dataset", lambda *_, r=report, **__: r)
        assert cli.run(["verify", "d"]) == code
    lines = capsys.readouterr().out.splitlines()
    assert "1 misplaced file (to be moved away)" in lines[2]
    assert "bad file" not in lines[2]
    assert lines[3:5] == ["a.parquet: is wrong", "b.parquet: is cut"]
    assert lines[5:7] == [
        "n=20: no labels in rows 5 to 6 (excluded)",
        "n=21: no labels in rows 0 to 4 (excluded)",
    ]
    assert cli.run(["verify", "d", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["good"], document["faults"][0]["path"]) == (False, "a.parquet")
