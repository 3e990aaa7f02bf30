"""Provenance of artifacts: parents, makers, the commit, and the line in their cards."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mcvrp.flows.cli.inspect import inspect
from mcvrp.storage import layout, provenance
from mcvrp.storage.cities import load_city
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.labels.manifest import read_manifest, rebuild_manifest
from mcvrp.storage.models.models import model_card, publish_model
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
from mcvrp.tasks.label.spec import Source, SpecDocument, stored_spec
from mcvrp.tasks.label.stage import _write_spec
from tests.support.datasets import label_spec, make_dataset
from tests.support.origins import recorded

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
    _write_spec(store, Source(spec, city), SpecDocument.read(store, "d"), labelling=True)
    rebuild_manifest(Dataset.open(store, "d"))


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
    publish_model(store, "m", state, dataset="d", rotation_trained=True)


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


def test_a_model_leads_to_the_file_of_addresses(store: Store) -> None:
    """By the parents in the documents, each with the installation that made it."""
    chain = ["models/m/0001", "training/r/I", "labels/d", "cities/c"]
    for path, parent in zip(chain, [*chain[1:], "file:addresses.csv"], strict=True):
        provenance = recorded(store, path)
        assert {each.path for each in provenance.parents} >= {parent}
        assert set(provenance.makers) == {HERE}


def test_inspect_prints_what_a_card_names(store: Store, tmp_path: Path) -> None:
    """With links that exist, relative to the card; in a folder outside of the store without links."""
    text = inspect(store, "m@champion").text
    assert f"Made by mcvrp {HERE.release}" in text.replace("\\", "")
    assert "from [training/r/I](../../../training/r/I), [labels/d](../../../labels/d)" in text
    card = model_card(store, "m")
    assert (Path(store.uri) / card.folder / "../../../training/r/I").is_dir()
    assert "](" not in provenance_line(card.provenance, "")
    assert "addresses.csv" in inspect(store, "cities/c").text


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
