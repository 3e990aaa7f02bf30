"""Requests to a store in parallel: many in order, or the parts of a large transfer."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")
THREADS = 16  # they wait for the store, not for the processor
_AHEAD = 256  # results that are requested at once
PART = 2**24  # bytes
LARGE = 4 * PART  # bytes, above which a file is transferred in parts
_CONNECTIONS = 8


def in_parallel(work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Yield ``work(item)`` for each of ``items``, in order, with read-ahead; raises what ``work`` raises."""
    waiting = iter(items)
    while batch := list(islice(waiting, _AHEAD)):  # not all at once: there may be very many
        with ThreadPoolExecutor(THREADS) as threads:
            results = list(threads.map(work, batch))
        # Yield after the threads have ended: an abandoned generator is closed wherever the garbage collector
        # runs, possibly inside the start of another thread, where joining threads would deadlock.
        yield from results


@dataclass
class Parts:
    """Parts transferred so far of a file that is read or written by several calls until one succeeds."""

    name: str = ""  # of the upload, or tag of the file that is read
    mark: str = field(default_factory=lambda: secrets.token_hex(8))  # identifies the uploaded file
    done: dict[int, Any] = field(default_factory=dict)

    def transfer(self, size: int, work: Callable[[int], Any]) -> list[Any]:
        """Return the results of ``work`` for the offset of every part of ``size`` bytes, in order.

        After an error of ``work`` no other part is begun; those in transfer are completed and kept.
        """

        def one(offset: int) -> None:
            self.done[offset] = work(offset)

        with ThreadPoolExecutor(_CONNECTIONS) as pool:
            list(pool.map(one, [offset for offset in range(0, size, PART) if offset not in self.done]))
        return [self.done[offset] for offset in range(0, size, PART)]
