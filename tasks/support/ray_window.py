"""Work over many items on Ray with a bounded number of them in flight, however many there are."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

import ray

from mcvrp.model.errors import McvrpError
from mcvrp.storage.store.errors import StoreError
from mcvrp.storage.store.store import Store
from mcvrp.tasks.support.ray_session import require_cluster

T = TypeVar("T")
_WINDOW = 2  # items a worker in Ray's hands: one at work, one waiting
_WAIT_SECONDS = 0.5  # how long Ctrl-C may wait for us
_SILENT_SECONDS = 30.0  # without an answer of any worker until we ask whether the store answers
_RETRIES = 2  # by Ray, of a worker that died


def windowed(
    work: Callable[..., Any],
    items: Iterable[T],
    workers: int,
    shared: object,
    store: Store,
    *,
    refusals: bool = False,
) -> Iterator[tuple[T, Any]]:
    """Yield each item with ``work(item, shared)``, as the answers come in.

    ``shared`` is sent once; ``items`` are taken as workers become free. ``store`` is what they work with:
    while no answer comes in it is asked for a sign of life, as nobody hears workers that wait for it.
    Where the worker of an item died again and again, the answer is the `ray.exceptions.RayError`. With
    ``refusals``, a `McvrpError` that ``work`` raises is the answer to its item, and the others go on.

    Raises
    ------
    McvrpError
        What ``work`` raises, without ``refusals``; a `StoreError` always; ClusterLost where Ray is gone.
    """
    remote = ray.remote(num_cpus=1, max_retries=_RETRIES)(work)
    context = ray.put(shared)
    waiting = iter(items)
    in_flight: dict[ray.ObjectRef, T] = {}
    heard = time.monotonic()
    while True:
        for item in islice(waiting, _WINDOW * workers - len(in_flight)):
            in_flight[remote.remote(item, context)] = item
        if not in_flight:
            return
        require_cluster()
        done, _ = ray.wait(list(in_flight), num_returns=1, timeout=_WAIT_SECONDS)
        if done:
            heard = time.monotonic()
        elif time.monotonic() - heard > _SILENT_SECONDS:
            store.exists("")
            heard = time.monotonic()
        for reference in done:
            item = in_flight.pop(reference)
            try:
                yield item, ray.get(reference)
            except ray.exceptions.RayTaskError as error:
                if not isinstance(error.cause, McvrpError):
                    raise
                if isinstance(error.cause, StoreError) or not refusals:
                    raise error.cause from None
                yield item, error.cause
            except ray.exceptions.RayError as error:
                yield item, error
