"""Tests of preflight: the input of a stage is checked once, and its city is read once."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcvrp.flows.config import preflight as module
from mcvrp.flows.config.preflight import checked, is_checked, preflight
from mcvrp.model.errors import McvrpError
from mcvrp.storage.cities import StoredCity, save_city
from mcvrp.storage.store.store import Store
from tests.support.datasets import CITY


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store.open(tmp_path)
    save_city(store, "c", CITY)
    return store


def test_a_checked_stage_is_not_checked_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within `checked` a flow neither checks nor reads the city again; elsewhere it does both."""
    checks, reads, read = [], [], module.stored_city  # type: ignore[attr-defined]

    def check(store: Store, city: StoredCity, spec: str) -> None:
        checks.append((city.name, spec))

    def reading(store: Store, name: str) -> StoredCity:
        reads.append(name)
        return read(store, name)

    monkeypatch.setattr(module, "stored_city", reading)
    city = preflight(check, store, "c", "labels")
    assert city.city.city_id == CITY.city_id
    with checked(store, city):
        assert is_checked()
        assert preflight(check, store, "c", "labels") is city
    assert (checks, reads) == ([("c", "labels")], ["c"])
    assert not is_checked()
    preflight(check, store, "c", "labels")
    assert (len(checks), len(reads)) == (2, 2)


def test_a_city_that_was_not_read_is_read(store: Store) -> None:
    """The pipeline is checked before its city exists."""
    with checked(store):
        assert preflight(pytest.fail, store, "c").name == "c"
        with pytest.raises(McvrpError, match="no city 'd'"):
            preflight(pytest.fail, store, "d")
