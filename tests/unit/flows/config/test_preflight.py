"""Tests of preflight: what a stage is asked is looked at once, and what has been read is not read again."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcvrp.flows.config import preflight as module
from mcvrp.flows.config.preflight import handing_on, has_looked, preflight
from mcvrp.model.errors import McvrpError
from mcvrp.storage.cities import StoredCity, save_city
from mcvrp.storage.store.store import Store
from tests.support.datasets import CITY


@pytest.fixture
def store(tmp_path: Path) -> Store:
    found = Store.open(tmp_path)
    save_city(found, "c", CITY)
    return found


def test_whoever_looks_first_looks_alone(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the command's process a flow neither checks nor reads the city again; elsewhere it does both."""
    checked, read, real = [], [], module.stored_city

    def check(there: Store, city: StoredCity, asked: str) -> None:
        checked.append((city.name, asked))

    def reading(there: Store, name: str) -> StoredCity:
        read.append(name)
        return real(there, name)

    monkeypatch.setattr(module, "stored_city", reading)
    city = preflight(check, store, "c", "labels")
    assert city.city.city_id == CITY.city_id
    with handing_on(store, city):
        assert has_looked()
        assert preflight(check, store, "c", "labels") is city
    assert (checked, read) == ([("c", "labels")], ["c"])
    assert not has_looked()
    preflight(check, store, "c", "labels")
    assert (len(checked), len(read)) == (2, 2)


def test_a_city_that_nobody_has_read_is_read(store: Store) -> None:
    """The pipeline's check is done before its city is there."""
    with handing_on(store):
        assert preflight(pytest.fail, store, "c").name == "c"
        with pytest.raises(McvrpError, match="no city 'd'"):
            preflight(pytest.fail, store, "d")
