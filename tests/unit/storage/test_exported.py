"""Exported models."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mcvrp.flows.cli.main import run
from mcvrp.model.errors import McvrpError
from mcvrp.model.network import FmMcvrp
from mcvrp.model.problem import City
from mcvrp.storage.cities import find_city, load_city, save_city
from mcvrp.storage.exported import export_folder, import_folder
from mcvrp.storage.models.models import load_model, model_card, named_version, open_folder, versions
from mcvrp.storage.models.registry import pointer
from mcvrp.storage.store.store import Store
from tests.support.datasets import everything
from tests.support.solving import CITY, put_day, put_model


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store.open(tmp_path / "store")
    put_day(store)
    return store


@pytest.fixture
def folder(store: Store, tmp_path: Path) -> Path:
    """The model "small" exported, and its store gone."""
    export_folder(store, model_card(store, "small"), Store.open(tmp_path / "folder"))
    for path in store.list(""):
        store.delete(path)
    return tmp_path / "folder"


def weights(network: FmMcvrp) -> list[list[float]]:
    return [parameter.flatten().tolist() for parameter in network.parameters()]


def test_a_folder_is_complete_and_never_overwritten(store: Store, tmp_path: Path) -> None:
    before, card = load_model(store, "small")
    folder = Store.open(tmp_path / "folder")
    export_folder(store, card, folder)
    written = everything(folder)
    with pytest.raises(McvrpError, match="folder is not empty"):
        export_folder(store, card, folder)
    assert everything(folder) == written
    put_model(store, "small", CITY, version=1)
    store.delete("models")
    network, exported = load_model(tmp_path / "folder")
    assert exported == card
    assert weights(network) == weights(before)
    assert load_city(folder, "small").city_id == CITY.city_id
    assert folder.get_json("config.json")["network"] == dict(card.network)
    readme = folder.get("README.md").decode()
    assert readme.startswith("---\nlibrary_name: mcvrp\n")
    assert 'mcvrp.load_model("FOLDER")' in readme


def test_the_city_that_extends_a_removed_one_is_exported(store: Store, tmp_path: Path) -> None:
    more = np.concatenate([CITY.xy, [[0.1, 0.2]]])
    save_city(store, "larger", City(more, extends=(CITY.customers,)))
    store.delete("cities/small")
    card = model_card(store, "small")
    export_folder(store, card, Store.open(tmp_path / "folder"))
    assert find_city(Store.open(tmp_path / "folder"), card.city_id).city_id == CITY.city_id


def test_a_folder_is_imported_once_as_the_next_version(folder: Path, tmp_path: Path) -> None:
    other = Store.open(tmp_path / "other")
    card = import_folder(open_folder(folder), other)
    assert (card.name, card.version, pointer(other, "small", "champion").version) == ("small", 1, 1)
    assert import_folder(open_folder(folder), other) == card
    assert versions(other, "small") == [1]
    network, _ = load_model(other, "small", "champion")
    assert weights(network) == weights(load_model(folder)[0])
    assert load_city(other, "small").city_id == CITY.city_id
    put_model(other, "small", CITY, version=2)
    assert import_folder(open_folder(folder), other).version == 1  # it has these weights
    assert import_folder(open_folder(folder), other, "mine").folder == "models/mine/0001"
    assert other.folders("cities") == ["small"]


def _cut(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"x")


def _without(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_cut, "model.safetensors is corrupt"),
        (_without("model.safetensors"), "model.safetensors"),
        (_without("model.json"), "has no model.json: name a folder that mcvrp models export has written"),
        (_without("cities/small/city.json"), "no city 'small' in"),
        (lambda folder: (folder / "cities").rename(folder / "towns"), "has 0 cities, not one"),
        (lambda folder: folder.rename(folder.with_name("away")), "there is no folder"),
    ],
)
def test_an_incomplete_folder_is_refused(
    folder: Path, tmp_path: Path, change: Callable[[Path], None], message: str
) -> None:
    other = Store.open(tmp_path / "other")
    change(folder)
    with pytest.raises(McvrpError, match=message) as caught:
        import_folder(open_folder(folder), other)
    assert len(str(caught.value)) <= 300
    assert other.list("") == []


def test_another_city_of_the_same_name_is_not_replaced(folder: Path, tmp_path: Path) -> None:
    other = Store.open(tmp_path / "other")
    save_city(other, "small", City.uniform(40, seed=6))
    with pytest.raises(McvrpError, match="cities/small is not the model's city"):
        import_folder(open_folder(folder), other)
    (folder / "cities/small").rename(folder / "cities/ours")
    assert import_folder(open_folder(folder), other).version == 1
    assert other.folders("cities") == ["ours", "small"]


def test_the_command_exports_solves_and_imports(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "away").mkdir()
    monkeypatch.chdir(tmp_path / "away")
    monkeypatch.delenv("MCVRP_STORE", raising=False)
    Path("monday.csv").write_text("customer,demand\n" + "".join(f"{k},2\n" for k in range(1, 9)))
    assert run(["models", "export", "small@champion", "taken", "--store", store.uri]) == 0
    solve = ["solve", "monday.csv", "--capacity", "9", "--samples", "2", "--no-hgs", "--json"]
    capsys.readouterr()
    assert run([*solve, "--model", "taken"]) == 0
    solved = json.loads(capsys.readouterr().out)
    assert (solved["model"], solved["city"], solved["customers"]) == ("small", "small", 8)
    assert run(["models", "import", "taken", "--store", "new", "--name", "ours"]) == 0
    assert named_version(Store.open("new"), "ours", "latest").city_id == CITY.city_id
    assert versions(store, "small") == [1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("models export", "required: MODEL[@VERSION], FOLDER"),
        ("models import", "required: FOLDER"),
        ("models export small@9 taken", "has no version 9"),
        ("models export small@first taken", "'first' is no version"),
        ("models export large taken", "no model 'large'"),
        ("models import nowhere", "there is no folder nowhere"),
        ("solve monday.csv --model ./nowhere", "there is no folder ./nowhere"),
        ("solve monday.csv --model ./away", "has no model.json"),
        ("solve o.csv --model ./away --version 3", "--version: the folder ./away contains a single version"),
    ],
)
def test_a_mistake_gets_one_sentence(
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: str,
    message: str,
) -> None:
    (tmp_path / "away").mkdir()
    monkeypatch.chdir(tmp_path)
    assert run([*arguments.split(), "--store", store.uri]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert message in line
    assert not (tmp_path / "taken").exists()


def test_a_refused_command_leaves_no_empty_folder(store: Store, folder: Path, tmp_path: Path) -> None:
    _cut(folder)
    (tmp_path / "mine").mkdir()
    (tmp_path / "o.csv").write_text("customer,demand\n1,2\n")
    put_day(store)
    path = tmp_path / "store/models/small/0001/model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    before = sorted(tmp_path.rglob("*"))
    solve = f"solve {tmp_path}/o.csv --capacity 9 --samples 1 --model {folder} --out {tmp_path}"
    for command in (
        f"{solve}/mine",
        f"{solve}/new/below",
        f"models export small@1 {tmp_path}/new/below --store {store.uri}",
        f"models export small@1 {tmp_path}/mine --store {store.uri}",
        f"models import {folder} --store {tmp_path}/new",
    ):
        assert run(command.split()) == 2
        assert sorted(tmp_path.rglob("*")) == before
