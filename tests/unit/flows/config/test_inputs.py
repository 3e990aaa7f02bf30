"""Tests of the inputs of a stage, which are read and checked once."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcvrp.flows.config.inputs import checked_before, inputs, open_store
from mcvrp.model.errors import McvrpError
from mcvrp.storage.cities import StoredCity, save_city
from mcvrp.storage.store.store import Store, StoreUnavailable
from tests.support.datasets import CITY


def test_only_the_first_stage_requires_an_answer_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stages of a pipeline open the store without a request; the flow that was started fails at once."""
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        monkeypatch.setenv(f"AWS_{name}", "canary")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(StoreUnavailable):
        open_store("s3://bucket/prefix")
    with checked_before():
        assert open_store("s3://bucket/prefix").uri == "s3://bucket/prefix"


def test_a_checked_stage_is_not_checked_again(tmp_path: Path) -> None:
    """A city that did not exist before is read."""
    store, checks = Store.open(tmp_path), []
    save_city(store, "c", CITY)

    def check(store: Store, city: StoredCity, spec: str) -> None:
        checks.append((city.name, spec))

    assert inputs(check, store.uri, "c", "labels")[1].city.city_id == CITY.city_id
    assert checks == [("c", "labels")]
    with checked_before():
        save_city(store, "new", CITY)
        assert inputs(pytest.fail, store.uri, "new")[1].name == "new"
        with pytest.raises(McvrpError, match="no city 'd'"):
            inputs(pytest.fail, store.uri, "d")
