"""Exported models."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from mcvrp.flows.cli.main import run
from mcvrp.model.decoding import Greedy, decode
from mcvrp.model.errors import McvrpError
from mcvrp.model.network import FmMcvrp
from mcvrp.model.problem import City, Instance
from mcvrp.storage import layout
from mcvrp.storage.cities import Addresses, find_city, load_city, save_city, stored_city
from mcvrp.storage.exported import export_folder, folder_city, import_folder
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
    assert (exported.city, replace(exported, city=None, ids_sha256=None)) == ("small", card)
    assert weights(network) == weights(before)
    assert load_city(folder, "small").city_id == CITY.city_id
    assert folder.get_json("config.json")["network"] == dict(card.network)
    readme = folder.get("README.md").decode()
    assert readme.startswith("---\nlibrary_name: mcvrp\n")
    assert 'mcvrp.load_model("FOLDER")' in readme


def test_a_loaded_model_refuses_another_city(store: Store) -> None:
    """Its node numbers are other places there; one that extends its city has the same."""
    network, card = load_model(store, "small")
    other = City.uniform(3, seed=1)
    orders = [Instance(other.city_id, np.arange(1, 4, dtype=np.uint32), np.ones(3, np.uint16), 5)]
    with pytest.raises(McvrpError, match=f"trained on city {card.city_id}, not on {other.city_id}"):
        decode(network, other, orders, strategy=Greedy())
    network.city = "lyon"
    with pytest.raises(McvrpError, match=rf"on city 'lyon' \({card.city_id}\), not on {other.city_id}"):
        decode(network, other, orders, strategy=Greedy())
    grown = City(np.concatenate([CITY.xy, CITY.xy[1:2]]), extends=(CITY.customers,))
    with pytest.raises(McvrpError, match="the model knows 41 nodes"):
        decode(network, grown, [], strategy=Greedy())


def test_the_city_that_extends_a_removed_one_is_exported(store: Store, tmp_path: Path) -> None:
    more = np.concatenate([CITY.xy, [[0.1, 0.2]]])
    save_city(store, "larger", City(more, extends=(CITY.customers,)))
    store.delete("cities/small")
    card = model_card(store, "small")
    export_folder(store, card, Store.open(tmp_path / "folder"))
    assert find_city(Store.open(tmp_path / "folder"), card.city_id).city_id == CITY.city_id


def shifted(city: City) -> Addresses:
    """Return ids of the same places, shifted by one customer."""
    numbers = range(1, city.customers + 1)
    return Addresses(("depot", *(f"C{k % city.customers + 1}" for k in numbers)))


def named(city: City) -> Addresses:
    return Addresses(("depot", *(f"C{k}" for k in range(1, city.customers + 1))))


@pytest.fixture
def renumbered(store: Store) -> Store:
    """A store with the model's city as "small", and a city of the same places with shifted ids as "aaa"."""
    save_city(store, "small", CITY, named(CITY))
    save_city(store, "aaa", CITY, shifted(CITY))
    return store


def put_ids(store: Store, city: str) -> None:
    """Let the card of the model name ``city`` with its ids, as training does."""
    card = model_card(store, "small")
    ids = stored_city(store, city).ids_sha256(card.city_id)
    store.put_json(layout.model_card("small", 1), asdict(replace(card, city=city, ids_sha256=ids)))


@pytest.mark.parametrize("city", ["small", "aaa"])
def test_a_model_is_exported_with_the_ids_of_its_own_city(
    renumbered: Store, tmp_path: Path, city: str
) -> None:
    """Places and city id are equal: only the card tells which customer is where."""
    put_ids(renumbered, city)
    export_folder(renumbered, model_card(renumbered, "small"), Store.open(tmp_path / "folder"))
    exported = folder_city(Store.open(tmp_path / "folder"))
    assert exported.addresses.ids == stored_city(renumbered, city).addresses.ids
    renumbered.delete(f"cities/{city}")
    with pytest.raises(McvrpError, match="with other ids of customers than it was trained with"):
        export_folder(renumbered, model_card(renumbered, "small"), Store.open(tmp_path / "other"))
    assert Store.open(tmp_path / "other").list("") == []


def test_a_renamed_city_and_one_that_was_extended_are_recognized(renumbered: Store, tmp_path: Path) -> None:
    """By their ids, even beside a city of the old name that was renumbered since."""
    put_ids(renumbered, "small")
    card = model_card(renumbered, "small")
    grown = City(np.concatenate([CITY.xy, [[0.1, 0.2]]]), extends=(CITY.customers,))
    save_city(renumbered, "grown", grown, Addresses((*named(CITY).ids, "new")))
    save_city(renumbered, "small", CITY, shifted(CITY))
    export_folder(renumbered, card, Store.open(tmp_path / "folder"))
    assert folder_city(Store.open(tmp_path / "folder")).name == "grown"


def test_an_old_model_with_several_cities_needs_a_name(renumbered: Store, tmp_path: Path) -> None:
    """Without a record of its ids, it is exported with the city that the user names; both are listed."""
    card = model_card(renumbered, "small")
    command = ["models", "export", "small", str(tmp_path / "folder"), "--store", renumbered.uri]
    with pytest.raises(McvrpError, match=r"as aaa, small, with other ids of customers: give --city NAME"):
        export_folder(renumbered, card, Store.open(tmp_path / "other"))
    assert run(command) == 2
    assert run([*command, "--city", "small"]) == 0
    assert folder_city(Store.open(tmp_path / "folder")).addresses.ids == named(CITY).ids
    save_city(renumbered, "far", City.uniform(CITY.customers, seed=9))
    with pytest.raises(McvrpError, match="not city"):
        export_folder(renumbered, card, Store.open(tmp_path / "third"), "far")


def test_an_imported_model_brings_its_ids(renumbered: Store, tmp_path: Path) -> None:
    """A city of the same places with other ids does not replace the model's own."""
    put_ids(renumbered, "small")
    export_folder(renumbered, model_card(renumbered, "small"), Store.open(tmp_path / "folder"))
    there = Store.open(tmp_path / "there")
    save_city(there, "aaa", CITY, shifted(CITY))
    card = import_folder(open_folder(tmp_path / "folder"), there)
    assert there.folders("cities") == ["aaa", "small"]
    assert stored_city(there, "small").ids_sha256(CITY.city_id) == card.ids_sha256


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
    solve = ["solve", "monday.csv", "--capacity", "9", "--samples", "2", "--by", "model", "--json"]
    capsys.readouterr()
    assert run([*solve, "--model", "taken"]) == 0
    solved = json.loads(capsys.readouterr().out)
    assert (solved["model"], solved["city"], solved["customers"]) == ("small", "small", 8)
    assert run(["models", "import", "taken", "--store", "new", "--name", "ours"]) == 0
    assert named_version(Store.open("new"), "ours", "latest").city_id == CITY.city_id
    assert versions(store, "small") == [1]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("models export small@9 new/below", "has no version 9"),
        ("models export small@first mine", "'first' is no version"),
        ("models export small@1 new/below", "model.safetensors is corrupt"),
        ("models export small@1 mine", "model.safetensors is corrupt"),
        ("models import nowhere", "there is no folder nowhere"),
        ("models import cut", "model.safetensors is corrupt"),
        ("solve o.csv --model ./nowhere", "there is no folder ./nowhere"),
        ("solve o.csv --model ./mine --version 3", "no model.json"),
        ("solve o.csv --capacity 9 --samples 1 --by model --model ./cut --out new/below", "is corrupt"),
    ],
)
def test_a_mistake_gets_one_sentence_and_leaves_no_folder(
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    message: str,
) -> None:
    export_folder(store, model_card(store, "small"), Store.open(tmp_path / "cut"))
    for folder in (tmp_path / "cut", Path(store.uri, "models/small/0001")):
        _cut(folder)
    (tmp_path / "mine").mkdir()
    (tmp_path / "o.csv").write_text("customer,demand\n1,2\n2,2\n")
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.chdir(tmp_path)
    assert run([*command.split(), "--store", store.uri]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert message in line
    assert sorted(tmp_path.rglob("*")) == before
