"""A store in which days can be routed, one per file of tests."""

from __future__ import annotations

import pytest

from mcvrp.storage.cities import save_city
from mcvrp.storage.store.store import Store
from tests.support.solving import one_way_city, put_day


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """With a city and a model, both "small", and a city whose costs depend on the direction."""
    store = Store.open(tmp_path_factory.mktemp("store"))
    put_day(store)
    save_city(store, "one-way", one_way_city())
    return store
