"""Progress of a large transfer in parts: a call that is repeated transfers those that are missing."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

PART = 2**24  # bytes
LARGE = 4 * PART  # bytes, above which a file is transferred in parts
_CONNECTIONS = 8


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
