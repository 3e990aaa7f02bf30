"""Folders of models that anybody may have written: each is imported and routes a day, or is one sentence."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import shutil
import time
from collections.abc import Callable
from functools import partial
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
from mcvrp.tasks.solve.members import members_of
from mcvrp.tasks.solve.plan import Request, plan_day
from mcvrp.tasks.solve.spec import Order, SolveSpec
from tests.support.solving import one_way_city, put_day, put_model

Document = dict[str, Any]
Change = Callable[[Document], object]
ORDERS = [Order(customer=str(k), demand=2) for k in range(1, 9)]
QUICK = SolveSpec(samples=2, by="model", time_limit=60)
VALUES = [
    *(None, True, -1, 0, 1, 2, 16, 41, 1.5, 10**9, 2**63, math.nan, math.inf, -math.inf, 1e308),
    *("", "x", "1", "small", "../../x", "a" * 5000, "\x1b[2J", "<img>", [], [1], {}, {"a": {"b": None}}),
]
DROPPED = "(dropped)"
OUT = "output.weight"


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    store = Store.open(folder / "store")
    put_day(store)
    card = model_card(store, "small")
    object.__setattr__(card, "metrics", {"step": 10, "greedy_gap": 7.25, "best_gap": None})
    export_folder(store, card, Store.open(folder / "model"))
    return folder / "model"


@pytest.fixture(scope="module")
def places(exported: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("places")
    store = Store.open(folder / "before")
    save_city(store, "away", one_way_city())
    put_model(store, "away", one_way_city())
    return folder


def fresh(exported: Path, places: Path) -> tuple[Path, Store]:
    for name, source in (("model", exported), ("store", places / "before")):
        shutil.rmtree(places / name, ignore_errors=True)
        shutil.copytree(source, places / name)
    return places / "model", Store.open(places / "store")


def rewrite(file: Path, change: Change) -> None:
    document = json.loads(file.read_text())
    change(document)
    file.write_text(json.dumps(document))


def solve(store: Store, city: str, model: str | Store) -> None:
    """Decode in this process; the command starts another one for the same member."""
    planned = plan_day(store, Request(ORDERS, city, model, 9), QUICK)
    assert planned.rest is not None
    (member,) = members_of(store, planned, planned.rest)
    *_, last = member.found(time.monotonic() + 60)
    assert sum(map(len, last.solution.routes)) == len(ORDERS)


def content(store: Store) -> dict[str, bytes]:
    return {file.path: store.get(file.path) for file in store.files("", hidden=True)}


def refusal(act: Callable[[], object]) -> str:
    """Return the sentence that ``act`` is refused with, "" if it is not; no other error is raised."""
    try:
        act()
    except McvrpError as error:
        message = str(error)
        assert message.isprintable(), message
        assert len(message) <= LONGEST
        return message
    return ""


def check(folder: Path, store: Store) -> tuple[str, str]:
    """Return the error messages, if any, of the import, which else changes nothing, and of solving alone."""
    before, cards = content(store), list[ModelCard]()

    def solve_alone() -> None:
        exported = open_folder(folder)
        solve(exported, folder_city(exported).name, exported)

    refused = refusal(lambda: cards.append(import_folder(open_folder(folder), store)))
    alone = refusal(solve_alone)
    if refused:
        assert content(store) == before
    else:
        assert not alone
        solve(store, "small", cards[0].name)
    return refused, alone


def paths_of(document: Document) -> list[tuple[str, ...]]:
    below = (
        (name, path)
        for name, value in document.items()
        if isinstance(value, dict)
        for path in paths_of(value)
    )
    return [("unknown",), *((name,) for name in document), *((name, *path) for name, path in below)]


def change_field(document: object, path: tuple[str, ...], value: object) -> None:
    for name in path[:-1]:
        document = document.get(name) if isinstance(document, dict) else None
    if isinstance(document, dict):
        document[path[-1]] = copy.deepcopy(value)
        if value is DROPPED:
            del document[path[-1]]


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_changed_card_is_imported_and_solves_or_is_a_sentence(
    exported: Path, places: Path, data: st.DataObject
) -> None:
    folder, store = fresh(exported, places)
    name = data.draw(st.sampled_from(["model.json"] * 4 + ["cities/small/city.json"]))
    paths = st.sampled_from(paths_of(json.loads((folder / name).read_text())))
    values = st.sampled_from([DROPPED, *VALUES])
    changes = data.draw(st.lists(st.tuples(paths, values), min_size=1, max_size=2))
    for path, value in changes:
        rewrite(folder / name, partial(change_field, path=path, value=value))
    check(folder, store)


def network(**fields: object) -> Change:
    return lambda card: card["network"].update(fields)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (network(dim=10**9), "parameters"),
        (network(dim="x"), "network.dim must be a whole number from 1, not 'x'"),
        (network(heads=3), "is not a multiple of network.heads 3"),
        (network(dropout=math.nan), "network.dropout must be a number in [0, 1), not nan"),
        (network(pointer="x"), "network.pointer must be true or false, not 'x'"),
        (network(pointer=True), "parameters"),
        (network(landmarks=2**62), "parameters"),
        (lambda card: card["network"].pop("heads"), "network.heads"),
        (lambda card: card.update(network=[]), "network"),
        (lambda card: card.update(colour="red"), "unknown field 'colour'"),
        (lambda card: card.update(name="../../x"), "name"),
        (lambda card: card.update(fingerprint="<img src=x>"), "fingerprint"),
        (lambda card: card.update(smallest=30), "smallest"),
        (lambda card: card.update(format=2), "update mcvrp"),
        (lambda card: card["metrics"].update(greedy_gap="x"), "metrics.greedy_gap"),
    ],
)
def test_a_card_that_cannot_be_loaded_is_refused(
    exported: Path, places: Path, change: Change, fault: str
) -> None:
    """By the import, which leaves the store as it was, with the file and field."""
    folder, store = fresh(exported, places)
    rewrite(folder / "model.json", change)
    refused, _ = check(folder, store)
    assert "model.json" in refused
    assert fault in refused


def test_solve_reports_a_card_that_cannot_be_loaded(
    exported: Path, places: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line, though another process loads it, and writes nothing."""
    folder, _ = fresh(exported, places)
    rewrite(folder / "model.json", network(dim="x"))
    (places / "monday.csv").write_text("customer,demand\n1,2\n2,3\n")
    arguments = ["--capacity", "9", "--samples", "2", "--by", "model", "--model", str(folder)]
    capsys.readouterr()
    assert run(["solve", str(places / "monday.csv"), *arguments, "--out", str(places / "routes")]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "network.dim must be a whole number from 1, not 'x'" in line
    assert not (places / "routes").exists()


_BF16 = b'{"a":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}}'


def _weights(change: Callable[[dict[str, Any]], object], raw: bytes | None = None) -> Callable[[Path], None]:
    def corrupt(folder: Path) -> None:
        arrays = load((folder / "model.safetensors").read_bytes())
        change(arrays)
        data = save(arrays) if raw is None else raw
        (folder / "model.safetensors").write_bytes(data)
        sha = hashlib.sha256(data).hexdigest()
        rewrite(folder / "model.json", lambda card: card.update(weights_sha256=sha, weights_bytes=len(data)))

    return corrupt


@pytest.mark.parametrize(
    ("corrupt", "fault"),
    [
        (_weights(lambda arrays: arrays.update(extra=np.zeros(0, np.float32))), "extra"),
        (_weights(lambda arrays: arrays.pop("output.weight")), "parameters"),
        (_weights(lambda arrays: arrays.update({OUT: arrays[OUT].T.copy()})), OUT),
        (_weights(lambda arrays: arrays.update({OUT: arrays[OUT].astype(np.int32)})), OUT),
        (_weights(lambda arrays: arrays[OUT].fill(math.nan)), OUT),
        (lambda folder: rewrite(folder / "model.json", lambda c: c.update(weights_bytes=1)), "weights_bytes"),
        (_weights(print, len(_BF16).to_bytes(8, "little") + _BF16 + b"12"), "is not a safetensors file"),
    ],
)
def test_weights_that_are_not_the_network_s_are_refused(
    exported: Path, places: Path, corrupt: Callable[[Path], None], fault: str
) -> None:
    """Though the card has their checksum: by name, shape, type, and for not being numbers."""
    folder, store = fresh(exported, places)
    corrupt(folder)
    assert fault in check(folder, store)[0]


@pytest.mark.parametrize("name", ["../../x", "a" * 200, "a/b"])
def test_a_name_that_cannot_be_a_folder_s_leaves_nothing(exported: Path, places: Path, name: str) -> None:
    folder, store = fresh(exported, places)
    before = content(store)
    refused = refusal(lambda: import_folder(open_folder(folder), store, name))
    assert "is not a valid name for a model" in refused
    assert content(store) == before


@pytest.mark.parametrize("file", ["champion/000009.json", "0001/model.json"])
def test_a_model_that_cannot_be_read_leaves_no_city(exported: Path, places: Path, file: str) -> None:
    folder, store = fresh(exported, places)
    save_city(store, "theirs", one_way_city())
    put_model(store, "small", one_way_city())
    put_model(store, "small", one_way_city(), version=2)
    store.put(f"models/small/{file}", b"[]")
    assert file in check(folder, store)[0]
