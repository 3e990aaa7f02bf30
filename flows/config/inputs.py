"""Store and city of a stage: read once and checked once, by the command or pipeline that calls the stages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from mcvrp.flows.config import settings
from mcvrp.storage.cities import StoredCity, stored_city
from mcvrp.storage.store.store import Store

# Cities by store and name, once the input of all stages has passed its preflight; None: each stage checks its
# own. Arguments of a flow, which Prefect sends to its server, cannot contain a matrix of 10^8 costs.
_CHECKED: ContextVar[dict[tuple[str, str], StoredCity] | None] = ContextVar("checked", default=None)


@contextmanager
def checked_before(
    cities: dict[tuple[str, str], StoredCity] | None = None,
) -> Iterator[dict[tuple[str, str], StoredCity]]:
    """Have the stages that are called in this context neither check their input nor read ``cities`` again.

    Yields the dictionary of cities, by default of the context around this one, to which others may be added.
    """
    cities = _CHECKED.get() or {} if cities is None else cities
    token = _CHECKED.set(cities)
    try:
        yield cities
    finally:
        _CHECKED.reset(token)


def is_checked() -> bool:
    """Return whether the input of this stage has passed its preflight already (`checked_before`)."""
    return _CHECKED.get() is not None


def open_store(uri: str | None) -> Store:
    """Return the store of a flow; without ``uri`` that of the environment.

    The store has to answer now, at once, unless the command or flow that began this one has checked that.
    """
    address = settings.store_uri(uri)
    return Store.at(address) if is_checked() else Store.open(address)


def inputs(
    check: Callable[..., None], uri: str | None, city: str, *specs: object
) -> tuple[Store, StoredCity]:
    """Return store and city of the running stage, after its preflight ``check`` unless that is done."""
    store, cities = open_store(uri), _CHECKED.get()
    read = (cities or {}).get((store.uri, city)) or stored_city(store, city)
    if cities is None:
        check(store, read, *specs)
    return store, read
