"""Progress of a large transfer in parts: a call that is repeated transfers those that are missing."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

PART = 2**24  # bytes
LARGE = 4 * PART  # bytes, above which a file is transferred in parts
_CONNECTIONS = 8


@dataclass
class Parts:
    """Parts transferred so far: the content that they belong to, and what is kept of each by its offset."""

    name: str = ""  # of the upload, or tag of the file that is read
    mark: str = ""  # by which the uploaded file is recognized
    done: dict[int, Any] = field(default_factory=dict)

    def transfer(self, size: int, work: Callable[[int], Any]) -> list[Any]:
        """Return the results of ``work`` for the offset of every part of ``size`` bytes, in order.

        Several parts are transferred at once. After an error of ``work`` no other is begun, those in transfer
        are completed.
        """

        def one(offset: int) -> None:
            self.done[offset] = work(offset)

        with ThreadPoolExecutor(_CONNECTIONS) as pool:
            for _ in pool.map(one, [offset for offset in range(0, size, PART) if offset not in self.done]):
                pass
        return [self.done[offset] for offset in range(0, size, PART)]
