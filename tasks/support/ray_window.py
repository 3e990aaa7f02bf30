"""Tasks over many items on Ray with a bounded number of them in flight."""

from __future__ import annotations

import math
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
WINDOW = 2  # tasks per worker in flight: one running, one waiting
WAIT_SECONDS = 0.5  # of a single wait for results, so that Ctrl-C is not held up for longer
_LOOK_SECONDS = 2.0  # between two looks whether Ray is there
_SILENT_SECONDS = 30.0  # without a result until the store is contacted
RETRIES = 2  # by Ray, of a worker that died


def windowed(
    work: Callable[..., Any],
    items: Iterable[T],
    workers: int,
    shared: object,
    store: Store,
    *,
    refusals: bool = False,
    retries: int = RETRIES,
    tick: Callable[[], int] | None = None,
) -> Iterator[tuple[T, Any]]:
    """Yield each item with ``work(item, shared)``, in the order of completion.

    ``items`` are consumed as ``workers`` become free, ``shared`` is sent once. The ``store`` of ``work`` is
    contacted if no result arrives for a while, because workers that wait for it do not report that. If the
    worker of an item died in spite of the ``retries`` by Ray, its result is the `ray.exceptions.RayError`;
    with ``refusals``, that of an item refused by ``work`` is the McvrpError, which is raised otherwise, as a
    StoreError always is. ClusterLost if Ray is gone. ``tick`` is called at least twice a second: it may end
    all by an error, and returns the number of workers from then on.
    """
    remote = ray.remote(num_cpus=1, max_retries=retries)(work)
    context = ray.put(shared)
    waiting = iter(items)
    in_flight: dict[ray.ObjectRef, T] = {}
    last_result, looked = time.monotonic(), -math.inf
    while True:
        if time.monotonic() - looked > _LOOK_SECONDS:
            require_cluster()
            looked = time.monotonic()
        workers = tick() if tick else workers
        for item in islice(waiting, max(0, WINDOW * workers - len(in_flight))):
            in_flight[remote.remote(item, context)] = item
        if not in_flight:
            return
        done, _ = ray.wait(list(in_flight), num_returns=1, timeout=WAIT_SECONDS)
        if done:
            last_result = time.monotonic()
        elif time.monotonic() - last_result > _SILENT_SECONDS:
            store.folders("")  # raises if the store does not answer
            last_result = time.monotonic()
        for reference in done:
            yield in_flight.pop(reference), _result(reference, refusals)


def _result(reference: ray.ObjectRef, refusals: bool) -> Any:
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        if not isinstance(error.cause, McvrpError):
            raise
        if isinstance(error.cause, StoreError) or not refusals:
            raise error.cause from None
        return error.cause
    except ray.exceptions.LocalRayletDiedError:  # says nothing about the item
        require_cluster()
        raise
    except ray.exceptions.RayError as error:
        return error
