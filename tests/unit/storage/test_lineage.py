"""Provenance of artifacts, and their lineage: trees up and down, broken links, events, the commit."""

from __future__ import annotations

import hashlib
import json
import subprocess
from dataclasses import asdict
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator, FormatChecker, ValidationError

from mcvrp.flows.cli.main import run
from mcvrp.flows.config.lineage_tree import tree_text
from mcvrp.flows.server.artifacts import links
from mcvrp.storage import layout, provenance
from mcvrp.storage.cities import load_city
from mcvrp.storage.labels.manifest import read_manifest, rebuild_manifest
from mcvrp.storage.lineage import Lineage, artifacts_at
from mcvrp.storage.models.models import export_model, model_card
from mcvrp.storage.provenance import (
    Maker,
    Parent,
    installation,
    made,
    provenance_in,
    provenance_line,
)
from mcvrp.storage.store.store import Store
from mcvrp.storage.training.checkpoints import (
    CheckpointState,
    Moments,
    Origin,
    save_checkpoint,
)
from mcvrp.tasks.city.make import AddressFile, CitySpec, make_city
from mcvrp.tasks.label.plan import LabelDataset
from mcvrp.tasks.label.spec import Source, stored_spec
from tests.support.datasets import label_spec, make_dataset

SCHEMA = Path(__file__).parents[2] / "support" / "data" / "openlineage.json"  # version 2-0-2, Apache 2.0
HERE = installation()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Addresses imported as a city, labels, a phase and a model, written as the stages write them."""
    rows = [f"{k},{k % 7},{k % 11},{int(k == 0)}" for k in range(41)]
    (tmp_path / "addresses.csv").write_text("\n".join(["id,x,y,depot", *rows]))
    store = Store.open(tmp_path / "store")
    file = AddressFile(file=str(tmp_path / "addresses.csv"))
    make_city(store, CitySpec(name="c", source="imported", addresses=file))
    label(store)
    publish(store)
    return store


def label(store: Store, count: int = 4) -> None:
    """Label, or label more; `make_dataset` writes the documents without provenance."""
    city, spec = load_city(store, "c"), label_spec(count=count, largest=20)
    paths = layout.city_card("c"), layout.label_spec("d")
    before = {path: store.get_json(path)["provenance"] for path in paths if store.exists(path)}
    make_dataset(store, spec, city)
    for path, told in before.items():
        store.put_json(path, {**store.get_json(path), "provenance": told})
    LabelDataset.open(store, Source(spec, city)).write_spec(labelling=True)
    rebuild_manifest(store, "d")


def publish(store: Store, phase: str = "I") -> None:
    city = load_city(store, "c")
    fingerprint = str((read_manifest(store, "d") or {})["fingerprint"])
    network = {
        "classes": city.classes,
        "dim": 8,
        "heads": 1,
        "ff": 8,
        "encoder_layers": 1,
        "decoder_layers": 1,
    }
    origin = Origin(city.city_id, fingerprint, network, {}, "")
    told = made([Parent("labels/d", fingerprint)])
    state = CheckpointState("r", phase, 1, 1, 1, origin, {}, provenance=told)
    state = save_checkpoint(store, state, {}, Moments({}, {}))
    export_model(store, "m", state, dataset="d", rotation_trained=True)


def test_a_model_leads_to_the_file_of_addresses_and_back(store: Store) -> None:
    """Each artifact is named once, with its makers; the way down from the city leads to the model."""
    text = tree_text(Lineage(store).ancestors("models/m/0001"))
    names = [line.strip("│└├─ ").split("  ")[0] for line in text.splitlines()]
    assert names == ["models/m/0001", "training/r/I", "labels/d", "cities/c", "file:addresses.csv"]
    assert text.count(f"mcvrp {HERE.release}") == 4
    assert "[" not in text
    down = tree_text(Lineage(store).descendants("cities/c"))
    assert [line.strip("│└├─ ").split("  ")[0] for line in down.splitlines()] == names[3::-1]


def test_broken_links_are_named(store: Store) -> None:
    """Deleted labels, a phase with other weights: the tree names them, and the model still knows its city."""
    label(store, count=5)
    changed = tree_text(Lineage(store).ancestors("models/m/0001"))
    assert changed.count("[changed since: labels/d was ") == 1
    assert tree_text(Lineage(store).descendants("labels/d")).count("[changed since: labels/d was ") == 1
    store.delete("labels/d")
    tree = Lineage(store).ancestors("models/m/0001")
    assert [path for path, each in tree.items() if each.fault == "missing or corrupt"] == ["labels/d"]
    store.delete("training/r")
    assert "training/r/I" in tree_text(Lineage(store).ancestors("models/m/0001"))
    store.put(layout.model_card("m", 1), b"{")
    assert Lineage(store).artifact("models/m/0001").fault == "missing or corrupt"


def test_an_artifact_of_an_earlier_version_says_why_its_tree_ends(store: Store) -> None:
    card = store.get_json(layout.city_card("c"))
    del card["provenance"]
    store.put_json(layout.city_card("c"), card)
    *_, city = tree_text(Lineage(store).ancestors("labels/d")).splitlines()
    assert city.endswith("[made by an earlier version of mcvrp, which recorded no provenance]")


@pytest.mark.parametrize("file", ["benchmarks/cvrplib/cvrplib.csv", "training/new/I/metrics.parquet"])
def test_an_artifact_without_a_record_is_not_called_corrupt(store: Store, file: str) -> None:
    """A benchmark on CVRPLIB instances has none, a phase none before its first checkpoint."""
    store.put(file, b"1")
    (path,) = artifacts_at(store, file)
    assert tree_text(Lineage(store).ancestors(path)) == f"{path}  [no record of its origin]"


def test_the_page_of_a_run_has_no_lineage_of_what_does_not_exist(store: Store) -> None:
    """Such as the driven days of a city before its first night with routes."""
    assert "driven/c" in (page := links(store, {"what was driven": "driven/c"}))
    assert "Made from" not in page


def test_what_was_made_of_itself_ends(store: Store) -> None:
    document = store.get_json(layout.city_card("c"))
    document["provenance"]["parents"] = [{"path": "models/m/0001", "hash": ""}]
    store.put_json(layout.city_card("c"), document)
    tree = Lineage(store).ancestors("cities/c")
    assert list(tree) == ["cities/c", "models/m/0001", "training/r/I", "labels/d"]
    assert tree_text(tree).splitlines()[-1].endswith("…")


def test_a_long_chain_of_rounds_is_printed(store: Store) -> None:
    """Each model was made from its labels and a run, both from the champion: 2^120 ways to the city."""
    for k in range(1, 121):
        champion = Parent(f"models/m/{k:04d}")
        for path, parents in {
            f"labels/d{k}/manifest.json": [champion],
            f"training/r{k}/I/step-00000001/state.json": [champion, Parent(f"labels/d{k}")],
            f"models/m/{k + 1:04d}/model.json": [Parent(f"training/r{k}/I"), Parent(f"labels/d{k}")],
        }.items():
            store.put_json(path, {"provenance": asdict(made(parents))})
    tree = Lineage(store).ancestors("models/m/0121")
    assert len(tree) == 3 * 120 + 5
    lines = tree_text(tree).splitlines()
    assert len(lines) == 101
    assert lines[-1].endswith("…")
    assert len(Lineage(store).descendants("cities/c")) == 3 * 120 + 4
    page = links(store, {"the model": "models/m/0121"})
    assert page.count("training/") < 40
    assert "[see mcvrp lineage models/m/0" in page


def test_provenance_is_no_part_of_a_dataset(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version makes the same labels: spec, fingerprint and name stay, and both are makers."""
    before, spec = read_manifest(store, "d"), stored_spec(store, "d")
    monkeypatch.setattr(provenance, "installation", lambda: Maker("9.9", "f" * 40, True, ("torch 3",)))
    label(store)
    after = read_manifest(store, "d")
    assert before
    assert after
    assert after["fingerprint"] == before["fingerprint"]
    assert after["spec"] == before["spec"]
    assert "provenance" not in after["spec"]
    assert stored_spec(store, "d") == spec
    makers = provenance_in(after).makers
    assert [maker.version for maker in makers] == [HERE.version, "9.9"]
    assert str(makers[1]).startswith("mcvrp 9.9+gffffffffffff.modified, torch 3")


def test_the_command_prints_trees_and_events(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By name, path, version or folder of several; events are valid by OpenLineage's own schema."""
    for name in ("m@champion", "models/m", "models", "models/m/0001/README.md", "r"):
        assert run(["lineage", name, "--store", store.uri]) == 0
        assert "file:addresses.csv" in capsys.readouterr().out
    out = tmp_path / "events.jsonl"
    assert run(["lineage", "cities/c", "--store", store.uri, "--json", "--openlineage", str(out)]) == 0
    document = json.loads(capsys.readouterr().out)["artifacts"][0]
    digest = hashlib.sha256((tmp_path / "addresses.csv").read_bytes()).hexdigest()
    assert document["made_from"][0]["links"] == [{"path": "file:addresses.csv", "fault": ""}]
    assert document["made_from"][1]["hash"] == digest
    assert document["made_of_it"][0]["links"][0]["path"] == "labels/d"
    check = Draft202012Validator(json.loads(SCHEMA.read_text()), format_checker=FormatChecker())
    events = [json.loads(line) for line in out.read_text().splitlines()]
    for event in events:
        check.validate(event)
    jobs = [event["job"]["name"] for event in events]
    assert jobs == ["cities/c", "labels/d", "training/r/I", "models/m/0001"]
    assert events[1]["inputs"][0]["name"] == f"{store.uri}/cities/c"
    with pytest.raises(ValidationError):
        check.validate({**events[0], "run": {}})


@pytest.mark.parametrize(
    ("name", "message"),
    [("models/n", "did you mean models/m"), ("preset.json", "there is nothing at"), ("", "value is empty")],
)
def test_unknown_names_are_one_sentence(
    store: Store, name: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["lineage", name, "--store", store.uri]) == 2
    assert message in capsys.readouterr().err


def test_the_card_and_the_ui_name_what_it_was_made_from(store: Store) -> None:
    """With links that exist, relative to the card; in a folder outside of the store without links."""
    readme = store.get("models/m/0001/README.md").decode()
    assert "from [training/r/I](../../../training/r/I), [labels/d](../../../labels/d)" in readme
    card = model_card(store, "m")
    assert (Path(store.uri) / card.folder / "../../../training/r/I").is_dir()
    assert "](" not in provenance_line(card.provenance, "")
    assert "file:addresses.csv" in links(store, {"the model": card.folder})
    assert artifacts_at(store, "preset.json") == []


def test_a_checkout_names_its_commit_and_whether_it_is_modified(tmp_path: Path) -> None:
    """Only the package counts, not other files; a folder without git has no commit."""

    def git(*words: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
        subprocess.run(["git", "-C", str(tmp_path), *identity, *words], check=True, capture_output=True)

    assert provenance._checkout(tmp_path) == (None, False)
    git("init")
    assert provenance._checkout(tmp_path) == (None, False)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "a.py").write_text("1")
    git("add", ".")
    git("commit", "-m", "first")
    commit, modified = provenance._checkout(tmp_path)
    assert commit
    assert len(commit) == 40
    assert not modified
    (tmp_path / "notes.txt").write_text("")
    assert provenance._checkout(tmp_path) == (commit, False)
    (tmp_path / "model" / "b.py").write_text("")
    assert provenance._checkout(tmp_path) == (commit, True)
    assert str(Maker("1", commit, True)) == f"mcvrp 1+g{commit[:12]}.modified"
    assert str(Maker("1", None, False, ("torch 3",))) == "mcvrp 1, torch 3"
