"""State messages of failed runs: the error and its remedy."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import obstore
import pytest
from prefect import Task
from prefect.client.schemas.objects import State

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
    pass


def full_disk(patch: pytest.MonkeyPatch) -> None:
    full = Mock(side_effect=OSError(28, "No space left on device"))
    patch.setattr(obstore, "put", full)


def s3_down(patch: pytest.MonkeyPatch) -> None:
    patch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    patch.setenv("AWS_ACCESS_KEY_ID", "key")
    patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    patch.setenv("AWS_REGION", "us-east-1")


def bug(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(city, "make_city", Mock(side_effect=RuntimeError("at https://me:canary@host")))


LABEL, CITY = SPEC["label"], {"city": SPEC["city"]}
CASES = [  # flow, parameters, part of the message, fault
    (label.label, {"label": LABEL | {"count": 0}}, "label.count: .*, not 0", nothing),
    (label.label, {"label": LABEL, "city": "nowhere"}, "no city 'nowhere' in .*mcvrp city", nothing),
    (train.train, {"train": SPEC["train"]}, "dataset 'smoke' has no labels of .*mcvrp label", nothing),
    (benchmark.benchmark, {"benchmark": SPEC["benchmark"], "model": "m"}, "no model 'm' in .*mcvrp", nothing),
    (nightly.nightly, {"nightly": SPEC["night"] | {"model": "m"}}, "no model 'm' in .*mcvrp", nothing),
    (solve.solve, {"model": "small", "orders": "orders/x.csv"}, "orders/x.csv", nothing),
    (city.city, CITY, r"\(No space left on device\): free space there", full_disk),
    (city.city, CITY | {"store": "s3://b/p"}, r"no connection at http://127.0.0.1:9\): check", s3_down),
    (city.city, CITY, "unexpected RuntimeError: at https://…@host: the run's logs have", bug),
]


@pytest.mark.parametrize(("flow", "spec", "error", "fault"), CASES)
def test_the_message_of_a_failed_run_has_a_remedy(
    flow: Any, spec: dict[str, Any], error: str, fault: Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sentence on an invalid spec, a missing artifact, disk or network; nothing is written."""
    put_day(store := Store.open(tmp_path / "store"))
    before = store.list("")
    monkeypatch.setattr(stage, "_deployed", lambda: True)
    monkeypatch.setenv("MCVRP_STORE", spec.get("store", store.uri))
    for module in (benchmark, city, label, nightly, solve, train):
        for name, task in [*vars(module).items()]:
            if isinstance(task, Task):
                monkeypatch.setattr(module, name, task.fn)  # the bare function needs no server
    for create in ("create_markdown_artifact", "create_progress_artifact"):
        monkeypatch.delattr(artifacts, create)  # these would need a server
    fault(monkeypatch)
    state = flow.fn(**{"city": "small", "store": store.uri} | spec)
    assert isinstance(state, State)
    assert state.is_failed()
    assert state.message
    assert "\n" not in state.message
    assert re.search(error, state.message), state.message
    assert store.list("") == before
