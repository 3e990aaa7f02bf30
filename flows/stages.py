"""What all flows share: how their runs are recorded, when a task is tried again, what a stage leaves."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from prefect.cache_policies import NO_CACHE

from flows import settings
from flows.records import flow_hooks, task_hooks
from model.errors import IncompleteError
from storage.store import Store, StoreUnavailable

RETRIES = 1
RETRY_SECONDS = 2.0


def flow_options() -> dict[str, Any]:
    """Return what every flow is declared with: results are in the store, Prefect would pickle them."""
    return {"persist_result": False, **flow_hooks()}


def task_options() -> dict[str, Any]:
    """Return what every task is declared with: presence in the store means done, not Prefect's cache."""
    return {"cache_policy": NO_CACHE, "persist_result": False, **task_hooks()}


def resuming_task_options() -> dict[str, Any]:
    """Return the options of a task that goes on from what it finds: tried again when it was cut off."""
    return {
        **task_options(),
        "retries": RETRIES,
        "retry_delay_seconds": RETRY_SECONDS,
        "retry_condition_fn": was_cut_off,
    }


def was_cut_off(task: Any, run: Any, state: Any) -> bool:
    """Whether a task ended early through no fault of its input: a lost worker, a network that failed."""
    try:
        state.result()
    except (IncompleteError, StoreUnavailable, OSError):
        return True
    except Exception:
        return False
    return False


def open_store(uri: str | None) -> Store:
    """Return the store of a flow; without ``uri`` the one that the environment names."""
    return Store.open(settings.store_uri(uri))


class Clock:
    """Seconds that a stage took."""

    seconds: float = 0.0


@contextmanager
def clock() -> Iterator[Clock]:
    """Measure the wall-clock time of the context."""
    measured, began = Clock(), time.monotonic()
    try:
        yield measured
    finally:
        measured.seconds = time.monotonic() - began
