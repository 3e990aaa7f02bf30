"""Models that anybody may have written: each routes a day, or is one sentence that names file and field."""

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

from mcvrp.model.errors import LONGEST, McvrpError
from mcvrp.storage.store.store import Store
from mcvrp.tasks.solve.members import members_of
from mcvrp.tasks.solve.plan import Request, plan_day
from mcvrp.tasks.solve.spec import Order, SolveSpec
from tests.support.solving import put_day

Document = dict[str, Any]
Change = Callable[[Document], object]
ORDERS = [Order(customer=str(k), demand=2) for k in range(1, 9)]
QUICK = SolveSpec(samples=2, by="model", time_limit=60)
VALUES = [
    *(None, True, -1, 0, 1, 2, 16, 41, 1.5, 10**9, 2**63, math.nan, math.inf, -math.inf, 1e308),
    *("", "x", "1", "small", "../../x", "a" * 5000, "\x1b[2J", "<img>", [], [1], {}, {"a": {"b": None}}),
]
DROPPED = "(dropped)"
CARD, WEIGHTS = (f"models/small/0001/model.{kind}" for kind in ("json", "safetensors"))
OUT = "output.weight"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    put_day(Store.open(folder))
    metrics = {"step": 10, "greedy_gap": 7.25, "best_gap": None}
    rewrite(folder / CARD, lambda card: card.update(metrics=metrics))
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """A copy of a store with a city and a model."""
    return shutil.copytree(whole, tmp_path / "store")


def rewrite(file: Path, change: Change) -> None:
    document = json.loads(file.read_text())
    change(document)
    file.write_text(json.dumps(document))


def solve(folder: Path) -> None:
    """Decode in this process; the command starts another one for the same member."""
    store = Store.open(folder)
    planned = plan_day(store, Request(ORDERS, "small", "small", 9), QUICK)
    assert planned.rest is not None
    (member,) = members_of(store, planned, planned.rest)
    *_, last = member.found(time.monotonic() + 60)
    assert sum(map(len, last.solution.routes)) == len(ORDERS)


def refusal(folder: Path) -> str:
    """Return the sentence that a day is refused with, "" if it is routed; no other error is raised."""
    try:
        solve(folder)
    except McvrpError as error:
        message = str(error)
        assert message.isprintable(), message
        assert len(message.replace(str(folder), "")) <= LONGEST
        return message
    return ""


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


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_changed_card_solves_or_is_a_sentence(whole: Path, tmp_path: Path, data: st.DataObject) -> None:
    folder = shutil.copytree(whole, tmp_path / "store", dirs_exist_ok=True)
    name = data.draw(st.sampled_from([CARD] * 4 + ["cities/small/city.json"]))
    paths = st.sampled_from(paths_of(json.loads((folder / name).read_text())))
    values = st.sampled_from([DROPPED, *VALUES])
    changes = data.draw(st.lists(st.tuples(paths, values), min_size=1, max_size=2))
    for path, value in changes:
        rewrite(folder / name, partial(change_field, path=path, value=value))
    refusal(folder)


def network(**fields: object) -> Change:
    return lambda card: card["network"].update(fields)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (network(dim=10**9), "parameters"),
        (network(dim="x"), "dim: Input should be a valid integer"),
        (network(heads=3), "is not a multiple of heads 3"),
        (network(dropout=math.nan), "dropout: Input should be"),
        (network(pointer="x"), "pointer: Input should be a valid boolean"),
        (network(pointer=True), "parameters"),
        (network(landmarks=2**62), "parameters"),
        (lambda card: card["network"].pop("heads"), "heads: Field required"),
        (lambda card: card.update(network=[]), "network"),
        (lambda card: card.update(colour="red"), "unknown field 'colour'"),
        (lambda card: card.update(name="../../x"), "name"),
        (lambda card: card.update(fingerprint="<img src=x>"), "fingerprint"),
        (lambda card: card.update(smallest=30), "smallest"),
        (lambda card: card["metrics"].update(greedy_gap="x"), "metrics.greedy_gap"),
    ],
)
def test_a_card_that_cannot_be_loaded_is_refused(folder: Path, change: Change, fault: str) -> None:
    rewrite(folder / CARD, change)
    refused = refusal(folder)
    assert "model.json" in refused
    assert fault in refused


_BF16 = b'{"a":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}}'


def _weights(change: Callable[[dict[str, Any]], object], raw: bytes | None = None) -> Callable[[Path], None]:
    def corrupt(folder: Path) -> None:
        arrays = load((folder / WEIGHTS).read_bytes())
        change(arrays)
        data = save(arrays) if raw is None else raw
        (folder / WEIGHTS).write_bytes(data)
        sha = hashlib.sha256(data).hexdigest()
        rewrite(folder / CARD, lambda card: card.update(weights_sha256=sha, weights_bytes=len(data)))

    return corrupt


@pytest.mark.parametrize(
    ("corrupt", "fault"),
    [
        (_weights(lambda arrays: arrays.update(extra=np.zeros(0, np.float32))), "extra"),
        (_weights(lambda arrays: arrays.pop("output.weight")), "parameters"),
        (_weights(lambda arrays: arrays.update({OUT: arrays[OUT].T.copy()})), OUT),
        (_weights(lambda arrays: arrays.update({OUT: arrays[OUT].astype(np.int32)})), OUT),
        (_weights(lambda arrays: arrays[OUT].fill(math.nan)), OUT),
        (lambda folder: (folder / WEIGHTS).unlink(), "there is no"),
        (lambda folder: (folder / WEIGHTS).write_bytes(b"x"), "model.safetensors is corrupt"),
        (_weights(print, len(_BF16).to_bytes(8, "little") + _BF16 + b"12"), "is not a safetensors file"),
    ],
)
def test_weights_that_are_not_the_network_s_are_refused(
    folder: Path, corrupt: Callable[[Path], None], fault: str
) -> None:
    """Though the card has their checksum: by name, shape, type, and for not being numbers."""
    corrupt(folder)
    assert fault in refusal(folder)
