"""Folders of models that anybody may have written: each is imported and routes a day, or is one sentence."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from safetensors.numpy import load, save

from mcvrp.flows.cli.main import run
from mcvrp.model.errors import LONGEST, McvrpError
from mcvrp.storage.cities import save_city
from mcvrp.storage.exported import export_folder, folder_city, import_folder
from mcvrp.storage.models.models import ModelCard, model_card, open_folder
from mcvrp.storage.store.store import Store
from mcvrp.tasks.solve.day import plan_day, solve_day
from mcvrp.tasks.solve.spec import Order, SolveSpec
from tests.support.solving import one_way_city, put_day, put_model

Document = dict[str, Any]
Change = Callable[[Document], object]
ORDERS = [Order(customer=str(k), demand=2) for k in range(1, 9)]
QUICK = SolveSpec(samples=2, hgs=False, polish="none", time_limit=60)
VALUES = [
    *(None, True, -1, 0, 1, 2, 16, 41, 1.5, 10**9, 2**63, math.nan, math.inf, -math.inf, 1e308),
    *("", "x", "1", "small", "../../x", "a" * 5000, "\x1b[2J", "<img>", [], [1], {}, {"a": {"b": None}}),
]
DROPPED = object()
OUT = "output.weight"


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model in a folder of its own, with metrics as training leaves them."""
    folder = tmp_path_factory.mktemp("exported")
    store = Store.open(folder / "store")
    put_day(store)
    card = model_card(store, "small")
    object.__setattr__(card, "metrics", {"step": 10, "greedy_gap": 7.25, "best_gap": None})
    export_folder(store, card, Store.open(folder / "model"))
    return folder / "model"


@pytest.fixture(scope="module")
def places(exported: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose store has a city and models already."""
    folder = tmp_path_factory.mktemp("places")
    store = Store.open(folder / "before")
    save_city(store, "away", one_way_city())
    put_model(store, "away", one_way_city())
    return folder


def laid(exported: Path, places: Path) -> tuple[Path, Store]:
    """Return a fresh copy of the folder, and a fresh store."""
    for name, source in (("model", exported), ("store", places / "before")):
        shutil.rmtree(places / name, ignore_errors=True)
        shutil.copytree(source, places / name)
    return places / "model", Store.open(places / "store")


def rewrite(file: Path, change: Change) -> None:
    document = json.loads(file.read_text())
    change(document)
    file.write_text(json.dumps(document))


def solve(store: Store, city: str, model: str | Store) -> None:
    """Route a day with the model; every customer is served."""
    solved = solve_day(store, plan_day(store, city, model, ORDERS, 9, QUICK), 0.0)
    assert sum(map(len, solved.solution.routes)) == len(ORDERS)


def solve_alone(folder: Path) -> None:
    """Route a day with the folder and nothing else."""
    there = open_folder(folder)
    solve(there, folder_city(there).name, there)


def content(store: Store) -> dict[str, bytes]:
    return {file.path: store.get(file.path) for file in store.files("", hidden=True)}


def refusal(act: Callable[[], object]) -> str:
    """Return the sentence that ``act`` is refused with, "" if it is not; nothing else may come of it."""
    try:
        act()
    except McvrpError as error:
        found = str(error)
    else:
        return ""
    assert found.isprintable(), found
    assert len(found) <= LONGEST
    return found


def check(folder: Path, store: Store) -> str:
    """Import the folder and solve with it; return the sentence that it was refused with, if it was."""
    before, cards = content(store), list[ModelCard]()
    refused = refusal(lambda: cards.append(import_folder(open_folder(folder), store)))
    alone = refusal(lambda: solve_alone(folder))
    if refused:
        assert content(store) == before
    else:
        assert not alone
        solve(store, "small", cards[0].name)
    return refused


def places_of(document: Document) -> list[tuple[str, ...]]:
    """Return the ways to all fields of ``document``, those of its tables, too, and to one that is unknown."""
    found: list[tuple[str, ...]] = [("unknown",)]
    for name, value in document.items():
        found.append((name,))
        if isinstance(value, dict):
            found += [(name, *below) for below in places_of(value)]
    return found


def changed(document: Document, place: tuple[str, ...], value: object) -> None:
    for name in place[:-1]:
        if not isinstance(document, dict) or name not in document:
            return
        document = document[name]
    if not isinstance(document, dict):
        return
    if value is DROPPED:
        document.pop(place[-1], None)
    else:
        document[place[-1]] = copy.deepcopy(value)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_changed_card_is_imported_and_solves_or_is_a_sentence(
    exported: Path, places: Path, data: st.DataObject
) -> None:
    """Whatever a field of its card, or of its city's, says: all works, or the store keeps every byte."""
    folder, store = laid(exported, places)
    name = data.draw(st.sampled_from(["model.json"] * 4 + ["cities/small/city.json"]))
    ways = places_of(json.loads((folder / name).read_text()))
    values = st.sampled_from([DROPPED, *VALUES])
    changes = data.draw(st.lists(st.tuples(st.sampled_from(ways), values), min_size=1, max_size=2))

    def change(document: Document) -> None:
        for place, value in changes:
            changed(document, place, value)

    rewrite(folder / name, change)
    check(folder, store)


def network(**fields: object) -> Change:
    return lambda card: card["network"].update(fields)


def metrics(**fields: object) -> Change:
    return lambda card: card["metrics"].update(fields)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (network(dim=10**9), "parameters"),
        (network(dim="x"), "network.dim must be a whole number from 1, not 'x'"),
        (network(dim=True), "network.dim must be a whole number from 1, not True"),
        (network(dim=32), "parameters"),
        (network(heads=0), "network.heads must be a whole number from 1, not 0"),
        (network(heads=3), "is not a multiple of network.heads 3"),
        (network(encoder_layers=10**9), "parameters"),
        (network(classes=10**9), "parameters"),
        (network(encoder_layers=2**62, dim=2**62), "parameters"),
        (network(dropout=math.nan), "network.dropout must be a number in [0, 1), not nan"),
        (network(dropout="x"), "network.dropout must be a number in [0, 1), not 'x'"),
        (network(pointer="x"), "network.pointer must be true or false, not 'x'"),
        (network(pointer=True), "parameters"),
        (network(depth=3), "network.depth"),
        (lambda card: card["network"].pop("heads"), "network.heads"),
        (lambda card: card.update(network=[]), "network"),
        (lambda card: card.update(colour="red"), "unknown field 'colour'"),
        (lambda card: card.update(name="../../x"), "name"),
        (lambda card: card.update(run="../../x"), "run"),
        (lambda card: card.update(dataset="a/b"), "dataset"),
        (lambda card: card.update(run=""), "run"),
        (lambda card: card.update(fingerprint="<img src=x>"), "fingerprint"),
        (lambda card: card.update(smallest=0), "smallest"),
        (lambda card: card.update(smallest=30), "smallest"),
        (lambda card: card.update(steps="x"), "steps"),
        (lambda card: card.update(version=0), "version"),
        (lambda card: card.update(format=2), "update mcvrp"),
        (metrics(greedy_gap=math.nan), "metrics.greedy_gap"),
        (metrics(greedy_gap=math.inf), "metrics.greedy_gap"),
        (metrics(greedy_gap="x"), "metrics.greedy_gap"),
        (metrics(greedy_gap=[1]), "metrics.greedy_gap"),
    ],
)
def test_a_card_that_cannot_be_loaded_is_refused(
    exported: Path, places: Path, capsys: pytest.CaptureFixture[str], change: Change, said: str
) -> None:
    """By the import, which leaves the store as it was, and by solve: a line that names the file and field."""
    folder, store = laid(exported, places)
    rewrite(folder / "model.json", change)
    refused = check(folder, store)
    assert "model.json" in refused
    assert said in refused
    (places / "monday.csv").write_text("customer,demand\n1,2\n2,3\n")
    arguments = ["--capacity", "9", "--samples", "2", "--no-hgs", "--model", str(folder)]
    capsys.readouterr()
    assert run(["solve", str(places / "monday.csv"), *arguments, "--out", str(places / "routes")]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert said in line
    assert not (places / "routes").exists()


def _raw(header: bytes, data: bytes = b"") -> bytes:
    return len(header).to_bytes(8, "little") + header + data


def _weights(change: Callable[[dict[str, Any]], object], raw: bytes | None = None) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        arrays = load((folder / "model.safetensors").read_bytes())
        change(arrays)
        data = save(arrays) if raw is None else raw
        (folder / "model.safetensors").write_bytes(data)
        sha = hashlib.sha256(data).hexdigest()
        rewrite(folder / "model.json", lambda card: card.update(weights_sha256=sha, weights_bytes=len(data)))

    return spoil


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_weights(lambda arrays: arrays.update(extra=np.zeros(0, np.float32))), "extra"),
        (_weights(lambda arrays: arrays.pop("output.weight")), "parameters"),
        (_weights(lambda arrays: arrays.update({OUT: arrays[OUT].T.copy()})), OUT),
        (_weights(lambda arrays: arrays.update({OUT: arrays[OUT].astype(np.int32)})), OUT),
        (_weights(lambda arrays: arrays[OUT].fill(math.nan)), OUT),
        (
            lambda folder: rewrite(folder / "model.json", lambda card: card.update(weights_bytes=1)),
            "weights_bytes",
        ),
        (_weights(print, b"1"), "is not a safetensors file"),
        (_weights(print, b"\xff" * 100), "is not a safetensors file"),
        (
            _weights(print, _raw(b'{"a":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}}', b"12")),
            "is not a safetensors file",
        ),
    ],
)
def test_weights_that_are_not_the_network_s_are_refused(
    exported: Path, places: Path, spoil: Callable[[Path], None], said: str
) -> None:
    """Though the card vouches for their checksum: by name, shape, type, and for not being numbers."""
    folder, store = laid(exported, places)
    spoil(folder)
    assert said in check(folder, store)


@pytest.mark.parametrize("name", ["../../x", "a" * 200, "a/b"])
def test_a_name_that_cannot_be_a_folder_s_leaves_nothing(exported: Path, places: Path, name: str) -> None:
    """The name of the imported model is validated before the city is written."""
    folder, store = laid(exported, places)
    before = content(store)
    assert "is not a valid name for a model" in refusal(
        lambda: import_folder(open_folder(folder), store, name)
    )
    assert content(store) == before


@pytest.mark.parametrize("file", ["champion.json", "challenger.json", "0001/model.json"])
def test_a_model_that_cannot_be_read_leaves_no_city(exported: Path, places: Path, file: str) -> None:
    """An invalid document of the model in the store is reported before anything is written."""
    folder, store = laid(exported, places)
    save_city(store, "theirs", one_way_city())
    put_model(store, "small", one_way_city())
    put_model(store, "small", one_way_city(), version=2)
    store.put(f"models/small/{file}", b"[]")
    assert file in check(folder, store)
