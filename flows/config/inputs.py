"""Store and city of a stage: checked once, by the command or pipeline that calls the stages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from mcvrp.flows.config import settings
from mcvrp.storage.cities import StoredCity, stored_city
from mcvrp.storage.store.store import Store

_CHECKED: ContextVar[bool] = ContextVar("checked", default=False)


@contextmanager
def checked_before() -> Iterator[None]:
    """Have the stages that are called in this context not check their input: it has passed its preflight."""
    token = _CHECKED.set(True)
    try:
        yield
    finally:
        _CHECKED.reset(token)


def is_checked() -> bool:
    """Return whether the input of this stage has passed its preflight already (`checked_before`)."""
    return _CHECKED.get()


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
    store = open_store(uri)
    read = stored_city(store, city)
    if not is_checked():
        check(store, read, *specs)
    return store, read
