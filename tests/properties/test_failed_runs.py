"""Tests of what the state of a failed run says: what was wrong, and what to do about it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prefect import Task
from prefect.states import State

from mcvrp.flows import benchmark, city, label, nightly, solve, train
from mcvrp.flows.config.preset import load_preset
from mcvrp.flows.server import artifacts, stage
from mcvrp.storage.store.store import Store
from tests.support.solving import put_day

SMOKE = load_preset("smoke")
SPEC = {
    name: getattr(SMOKE, name).model_dump(mode="json")
    for name in ("city", "label", "train", "benchmark", "night")
}
Fault = Callable[[pytest.MonkeyPatch], None]


def nothing(patch: pytest.MonkeyPatch) -> None:
    """Everything is as it should be."""


def full_disk(patch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    patch.setattr(os, "fsync", full)


def s3_down(patch: pytest.MonkeyPatch) -> None:
    patch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    patch.setenv("AWS_ACCESS_KEY_ID", "key")
    patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    patch.setenv("AWS_REGION", "us-east-1")


def bug(patch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("at https://me:canary@host")

    patch.setattr(city, "make_city", broken)


@pytest.mark.parametrize(
    ("flow", "given", "fault", "said"),
    [
        (
            label.label,
            {"label": SPEC["label"] | {"count": 0}},
            nothing,
            "label.count must be at least 1, not 0",
        ),
        (
            label.label,
            {"label": SPEC["label"], "city": "nowhere"},
            nothing,
            "no city 'nowhere' in .*mcvrp city",
        ),
        (
            label.label,
            {"label": SPEC["label"] | {"workers": 9999}},
            nothing,
            "this machine has .*request fewer",
        ),
        (train.train, {"train": SPEC["train"]}, nothing, "dataset 'smoke' has no labels of .*mcvrp label"),
        (
            benchmark.benchmark,
            {"benchmark": SPEC["benchmark"]},
            nothing,
            "model is missing: name one, as a method .* needs it",
        ),
        (
            benchmark.benchmark,
            {"benchmark": SPEC["benchmark"], "model": "m"},
            nothing,
            "no model 'm' in .*mcvrp",
        ),
        (nightly.nightly, {"nightly": SPEC["night"] | {"model": "m"}}, nothing, "no model 'm' in .*mcvrp"),
        (
            solve.solve,
            {"model": "small", "orders": "/etc/passwd"},
            nothing,
            "no path in the store: put the file",
        ),
        (
            city.city,
            {"city": {"name": "c", "source": "imported", "addresses": {"file": "/etc/passwd"}}},
            nothing,
            "^city.addresses.file = '/etc/passwd' is not a path in the store: upload the file",
        ),
        (solve.solve, {"model": "small", "orders": "orders/x.csv"}, nothing, "orders/x.csv"),
        (city.city, {"city": SPEC["city"]}, full_disk, r"\(No space left on device\): free space there"),
        (
            city.city,
            {"city": SPEC["city"], "store": "s3://b/p"},
            s3_down,
            r"127.0.0.1:9 \(no connection\): check that it is running",
        ),
        (
            city.city,
            {"city": SPEC["city"]},
            bug,
            "unexpected RuntimeError: at https://…@host: the run's logs have",
        ),
    ],
)
def test_a_failed_run_says_what_to_do(
    flow: Any, given: dict[str, Any], fault: Fault, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sentence, in the first second, whatever it was: the spec, something missing, disk, network."""
    put_day(store := Store.open(tmp_path / "store"))
    before = store.list("")
    monkeypatch.setattr(stage, "_deployed", lambda: True)
    monkeypatch.setenv("MCVRP_STORE", given.get("store", store.uri))
    for module in (benchmark, city, label, nightly, solve, train):
        for name, task in [*vars(module).items()]:
            if isinstance(task, Task):
                monkeypatch.setattr(module, name, task.fn)  # the bare function needs no server
    for create in ("create_markdown_artifact", "create_progress_artifact"):
        monkeypatch.delattr(artifacts, create)  # these would need a server
    fault(monkeypatch)
    takes_city = "city" not in given
    state = flow.fn(**({"city": "small"} if takes_city else {}), **({"store": store.uri} | given))
    assert isinstance(state, State)
    assert state.is_failed()
    assert state.message
    assert "\n" not in state.message
    assert re.search(said, state.message), state.message
    assert store.list("") == before
