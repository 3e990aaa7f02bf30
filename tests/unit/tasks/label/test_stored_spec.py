"""Spec and city of a stored dataset: those it was made from, whatever the city is called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.cities import find_city, save_city
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.spec import Source, stored_spec
from tests.support.datasets import CITY, label_spec


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"iterations": None},
        {"iterations": None, "budget": "converged"},
        {"iterations": None, "time_limit": 0.5, "fleet": 10_000},
        {"population": 5, "demand": (2, 7), "capacity": (40, 44)},
        {"solver": "lkh3", "iterations": None},
        {"solver": "pyvrp", "split": "test", "seed": 2**63},
    ],
)
def test_a_stored_spec_is_the_one_that_was_asked(store: Store, changes: dict[str, Any]) -> None:
    """It makes the same labels, with the same hash in the footers."""
    spec = label_spec(**changes)
    extent = {"smallest": 20, "largest": 21, "count": 10}
    store.put_json(layout.label_spec("d"), {**spec.identity(CITY), **extent})
    save_city(store, "anything", CITY)
    save_city(store, "another", City.uniform(5, seed=1))
    found, city_id = stored_spec(store, "d")
    source = Source(found, find_city(store, city_id))
    assert source.spec == spec.in_city(CITY)
    assert source.city.city_id == CITY.city_id
    assert source.recipe == spec.recipe(CITY)
    stream = InstanceStream(CITY, spec.seed, spec.split, spec.rules_in(CITY))
    assert source.stream(20, 3).ids.tolist() == stream(20, 3).ids.tolist()


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "null", "{}", '{"city_id": "x", "schema_version": 2}'])
def test_a_corrupt_spec_is_named(store: Store, text: str) -> None:
    """One sentence with the file and the way out."""
    store.put(layout.label_spec("d"), text.encode())
    with pytest.raises(McvrpError, match=r"labels/d/spec\.json .*remove") as caught:
        stored_spec(store, "d")
    assert "\n" not in str(caught.value)


def test_a_city_that_is_not_there_is_named(store: Store) -> None:
    """With its id and the way out."""
    save_city(store, "c", CITY)
    assert find_city(store, CITY.city_id).city_id == CITY.city_id
    with pytest.raises(McvrpError, match=r"no city in .* has the id 0123: create it there"):
        find_city(store, "0123")
