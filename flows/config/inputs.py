"""Store and city of a stage."""

from __future__ import annotations

from collections.abc import Callable

from mcvrp.flows.config import settings
from mcvrp.storage.cities import StoredCity, stored_city
from mcvrp.storage.store.store import Store


def open_store(uri: str | None) -> Store:
    """Return the store of a flow, by default that of the environment.

    It is waited for: `mcvrp ui` and the commands have seen it answer.
    """
    return Store.at(settings.store_uri(uri))


def inputs(
    check: Callable[..., None], uri: str | None, city: str, *specs: object
) -> tuple[Store, StoredCity]:
    """Return store and city of the running stage, after its preflight ``check``."""
    store = open_store(uri)
    read = stored_city(store, city)
    check(store, read, *specs)
    return store, read
