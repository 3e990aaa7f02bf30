"""Requests to a store in parallel, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")
THREADS = 16  # they wait for the store, not for the processor
_AHEAD = 256  # results that are requested at once


def in_parallel(work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Yield ``work(item)`` for each of ``items``, in order, with read-ahead; raises what ``work`` raises."""
    waiting = iter(items)
    while batch := list(islice(waiting, _AHEAD)):  # not all at once: there may be very many
        with ThreadPoolExecutor(THREADS) as threads:
            results = list(threads.map(work, batch))
        # Yield after the threads have ended: an abandoned generator is closed wherever the garbage collector
        # runs, possibly inside the start of another thread, where joining threads would deadlock.
        yield from results
