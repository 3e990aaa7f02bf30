"""Inspecting: a dataset by its name or its place, one of its instances as a picture, files and folders."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcvrp.flows.cli import main as cli
from mcvrp.flows.cli.inspect import dataset_of, draw, inspect
from mcvrp.flows.cli.verify import verification_document, verification_text
from mcvrp.flows.server.artifacts import card_markdown
from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.cities import save_city
from mcvrp.storage.driven import IntakeReceipt
from mcvrp.storage.labels.label_files import write_table
from mcvrp.storage.labels.schema import label_table
from mcvrp.storage.labels.verification import FileFault, VerificationReport
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.card import figure_path, write_card
from tests.support.datasets import CITY, label_spec, make_dataset, sweep_label


@pytest.fixture(scope="module")
def carded(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store with the dataset d and its card, and the dataset bare without one."""
    store = Store.open(tmp_path_factory.mktemp("store"))
    make_dataset(store, label_spec())
    write_card(store, CITY, "d")
    make_dataset(store, label_spec(dataset="bare", largest=20))
    return store


def test_a_dataset_is_found_by_name_and_by_place(carded: Store) -> None:
    """NAME and labels/NAME are the same; what is no dataset is none."""
    assert dataset_of(carded, "d") == dataset_of(carded, "labels/d/") == "d"
    for path in ("", "labels", "e", "labels/d/data/n=020", "-", "cities/c"):
        assert dataset_of(carded, path) is None


def test_the_card_of_a_dataset_is_printed(carded: Store) -> None:
    """As text with its table aligned and where it lies; as a document with the figures."""
    found = inspect(carded, "d")
    assert "20 solved instances" in found.text
    assert carded.url(layout.card("d")) in found.text
    assert found.document["manifest"]["rows"] == 20
    assert [size["n"] for size in found.document["sizes"]] == [20, 21]
    json.dumps(found.document)
    assert inspect(carded, "labels/d") == found


def test_a_dataset_without_card_says_so(carded: Store) -> None:
    """The totals come from the manifest."""
    text = inspect(carded, "bare").text
    assert "no card so far" in text
    assert "10" in text


def test_files_and_folders_are_described(carded: Store) -> None:
    """A folder is listed, Parquet has its columns and footer, the rest its size."""
    assert "labels/d/data/n=020/part-00000.parquet" in inspect(carded, "labels/d/data/n=020").text
    shard = inspect(carded, layout.label_shard("d", 20, 0))
    assert shard.document["rows"] == 6
    assert shard.document["footer"]["row_stop"] == "6"
    assert "pixels" in inspect(carded, figure_path("d", "cost")).text
    with pytest.raises(McvrpError, match="nothing at"):
        inspect(carded, "nowhere")


def put_json(store: Store, *paths: str) -> None:
    for path in paths:
        store.put_json(path, {"here": path})


@pytest.fixture
def full(tmp_path: Path) -> Store:
    """A store with things of every kind, several of one name."""
    store = Store.open(tmp_path / "store")
    save_city(store, "lyon", CITY)
    put_json(store, "labels/laptop/spec.json", "training/laptop/spec.json", "benchmarks/alps/summary.json")
    store.put(
        "training/laptop/README.md", b"# Run\n\n![Losses](losses.png)\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    )
    for number in (2, 1):
        record = {"number": number, "champion": number, "challenger": number + 1, "applied": number == 1}
        store.put_json(f"nights/fm/night-{number}/night.json", {**record, "reasons": ["slower"]})
    store.put("driven/paris/quarantine/ab.csv", "row;reason\n3;no such customer: Zoë\n".encode())
    store.put_json(
        "driven/paris/files/ab.json", vars(IntakeReceipt("monday.csv", "ab" * 32, 9, 1, ("2026-02-27",)))
    )
    store.put("attention/old/n=020/training.safetensors", b"unfinished")
    return store


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("", "labels"),
        ("labels", "labels/laptop"),
        ("lyon", "60"),
        ("cities/lyon", "city_id"),
        ("alps", '"here": "benchmarks/alps/summary.json"'),
        ("benchmarks/alps/summary.json", '"here": "benchmarks/alps/summary.json"'),
        ("training/laptop", "losses.png"),
        ("laptop", "training run  training/laptop"),
        ("fm", "night-1"),
        ("night-2", '"number": 2'),
        ("paris", "monday.csv"),
        ("driven/paris/quarantine/ab.csv", "no such customer: Zoë"),
        ("old", "training.safetensors"),
    ],
)
def test_a_name_of_any_kind_is_described(full: Store, path: str, said: str) -> None:
    """For a person and for a program; the whole address, as artifacts show it, names the same."""
    found = inspect(full, path)
    assert said in found.text or said in json.dumps(found.document, indent=2)
    json.dumps(found.document)
    assert path in ("", "laptop") or inspect(full, full.url(path)) == found or "/" not in path


def test_a_path_may_begin_where_one_is(full: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a shell completes it: from beside the store, and from within."""
    monkeypatch.chdir(Path(full.uri).parent)
    assert inspect(full, "store/labels/laptop/spec.json") == inspect(full, "labels/laptop/spec.json")
    monkeypatch.chdir(Path(full.uri, "training"))
    assert inspect(full, "./laptop/") == inspect(full, "training/laptop")


def test_nights_are_in_their_order(full: Store) -> None:
    """A row each, with what was decided."""
    text = inspect(full, "nights/fm").text
    assert text.index("night-1") < text.index("night-2")
    assert "slower" in text


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("labels/lptop", r"nothing at .*labels/lptop: did you mean labels/laptop"),
        ("laptp", r"did you mean labels/laptop, training/laptop\?"),
        ("zzz", r"nothing at .*/zzz: there is cities/lyon, labels/laptop, "),
        ("s3://bucket/labels/d", "s3://bucket/labels/d is not in the store .*: say which with --store"),
        ("/etc/passwd", "/etc/passwd is not in the store"),
        ("../outside", "leads out of the store"),
        ("lyon@champion", "no model 'lyon'"),
    ],
)
def test_what_is_not_there_is_said_with_what_may_have_been_meant(full: Store, path: str, said: str) -> None:
    """One sentence, and names to choose from."""
    with pytest.raises(McvrpError, match=said):
        inspect(full, path)


@pytest.mark.parametrize("ending", ["json", "parquet", "png", "safetensors"])
def test_a_corrupt_file_is_said_to_be_one(tmp_path: Path, ending: str) -> None:
    """Any kind that it claims to be: a sentence with its place."""
    store = Store.open(tmp_path)
    store.put(f"labels/d/x.{ending}", b"\xff{ not what it says")
    with pytest.raises(McvrpError, match=f"x.{ending} is no"):
        inspect(store, f"labels/d/x.{ending}")


def test_an_instance_is_drawn(carded: Store, tmp_path: Path) -> None:
    """With its routes, into the file asked for, and described in a line."""
    target = tmp_path / "x.png"
    found = draw(carded, "labels/d", 21, 7, target)
    assert target.read_bytes().startswith(b"\x89PNG")
    label = sweep_label(21, 7, label_spec())
    assert f"{len(label.solution.routes)} routes, cost {label.cost:.6g}" in found.text
    assert found.document["cost"] == label.cost
    json.dumps(found.document)


def test_an_instance_behind_a_row_without_label_is_found(tmp_path: Path) -> None:
    """A quarantined row has no label; the rows behind it are not mistaken for it."""
    store = Store.open(tmp_path)
    spec = label_spec(largest=20, count=5)
    make_dataset(store, spec)
    labels = [sweep_label(20, i, spec) for i in (0, 1, 3, 4)]
    path, spec_hash = layout.label_shard("d", 20, 0), spec.recipe(CITY).spec_hash
    write_table(store, path, CITY, spec_hash, 20, label_table(labels), absent=[2])
    out = tmp_path / "x.png"
    assert draw(store, "d", 20, 3, out).document["index"] == 3
    with pytest.raises(McvrpError, match=r"no label of instance \(n=20, i=2\)"):
        draw(store, "d", 20, 2, out)


@pytest.mark.parametrize(
    ("path", "n", "i", "said"),
    [
        ("d", 20, 10, r"no label of instance \(n=20, i=10\): it has 10 labels of n=20"),
        ("d", 55, 0, r"it has 0 labels of n=55"),
        ("d", 20, -1, "i counts from 0"),
        ("e", 20, 0, "no dataset 'e'"),
        ("cities/c", 20, 0, "no dataset 'cities/c'"),
    ],
)
def test_what_cannot_be_drawn_is_named(
    carded: Store, tmp_path: Path, path: str, n: int, i: int, said: str
) -> None:
    """One sentence, and no file."""
    with pytest.raises(McvrpError, match=said):
        draw(carded, path, n, i, tmp_path / "x.png")
    assert list(tmp_path.iterdir()) == []


def test_a_picture_that_cannot_be_written_is_named(carded: Store, tmp_path: Path) -> None:
    """The file and the way out."""
    with pytest.raises(McvrpError, match=r"cannot write .*x\.png .*--out"):
        draw(carded, "d", 20, 0, tmp_path / "no" / "x.png")


def test_the_command_draws_where_it_runs(
    carded: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`mcvrp inspect d --draw 20 3` names its file after what it shows."""
    monkeypatch.chdir(tmp_path)
    assert cli.run(["inspect", "d", "--draw", "20", "3", "--store", carded.uri]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["d-n020-i3.png"]
    assert "d-n020-i3.png" in capsys.readouterr().out


def test_prefect_gets_the_card_with_its_pictures(carded: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small pictures are inside, large ones are links, and without a card there is nothing."""
    text = card_markdown(carded, "d")
    assert text.count("data:image/png;base64,") == 3
    assert "20 solved instances" in text
    monkeypatch.setattr("mcvrp.flows.server.artifacts._PICTURE_BYTES", 100)
    assert carded.url(figure_path("d", "cost")) in card_markdown(carded, "d")
    assert card_markdown(carded, "bare") == ""


# What verify says


def some_report(**changes: object) -> VerificationReport:
    base = {"dataset": "d", "verified_at": "now", "fingerprint": "f", "rows": 9, "files": 2}
    return VerificationReport(**{**base, "faults": (), "missing": (), **changes})  # type: ignore[arg-type]


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[VerificationReport]]:
    """Reports that verify gives, without reading anything."""
    reports: list[VerificationReport] = []
    monkeypatch.setattr("mcvrp.tasks.label.verify.verify_dataset", lambda *_, **__: reports[0])
    monkeypatch.setenv("MCVRP_STORE", str(tmp_path))
    return reports


def test_a_good_report_is_one_line_and_code_0(
    answered: list[VerificationReport], capsys: pytest.CaptureFixture[str]
) -> None:
    """Number of labels, of files, and labels a second."""
    answered.append(some_report())
    assert cli.run(["verify", "d"]) == 0
    assert capsys.readouterr().out.startswith("9 labels in 2 files proved in ")


def test_faults_are_a_line_each_and_code_1(
    answered: list[VerificationReport], capsys: pytest.CaptureFixture[str]
) -> None:
    """With file, row and instance; what is missing and what was not checked beside it."""
    faults = (FileFault("a.parquet", "s", "it is wrong", 20, 3, 9), FileFault("b.parquet", "s", "it is gone"))
    missing = ((20, 5, 6), (21, 0, 4))
    answered.append(some_report(faults=faults, missing=missing, quarantined=1, unchecked=("the rest",)))
    assert cli.run(["verify", "d"]) == 1
    *lines, last = capsys.readouterr().out.splitlines()
    assert lines == [
        "a.parquet, row 3 (instance n=20, i=9): it is wrong",
        "b.parquet: it is gone",
        "n=20: row 5 has no label",
        "n=21: rows 0 to 3 have no label",
        "not checked: the rest",
    ]
    assert "2 faults in 2 files, 5 labels missing, 1 of them quarantined: mcvrp label repairs" in last
    assert cli.run(["verify", "d", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["good"], document["faults"][0]["row"]) == (False, 3)


def test_a_report_says_how_fast_it_was() -> None:
    """Labels a second, from the seconds that it took."""
    assert verification_text(some_report(), 3.0).endswith("9 labels in 2 files proved in 3.0 s (3/s)")
    assert verification_document(some_report(), 3.0)["seconds"] == 3.0
