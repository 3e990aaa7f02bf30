"""Counter-based random streams: raw Philox words and our own sampling, the same bytes on every machine.

The raw words of Philox 4x64 are stable across platforms and versions; the methods of NumPy's Generator are
not, so all reproducible randomness derives from these words.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def philox_key(*parts: str) -> int:
    """Return a 128-bit key for the random stream named by ``parts``."""
    return int.from_bytes(hashlib.sha256("\0".join(("mcvrp", *parts)).encode()).digest()[:16], "little")


def philox_rows(key: int, streams: Sequence[tuple[int, int]], count: int) -> NDArray[np.float64]:
    """Return ``count`` doubles in [0, 1) of each of the Philox ``streams`` under ``key``, ``(K, count)``."""
    philox = np.random.Philox(key=np.array([key & (2**64 - 1), key >> 64], dtype=np.uint64))
    state = philox.state  # with an empty buffer: the first word is that of the counter
    words = np.empty((len(streams), count), dtype=np.uint64)
    for row, stream in zip(words, streams, strict=True):
        state["state"]["counter"][:] = (0, *stream, 0)
        philox.state = state
        row[:] = philox.random_raw(count)
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def philox_uniforms(key: int, stream: tuple[int, int], count: int) -> NDArray[np.float64]:
    """Return ``count`` doubles in [0, 1) of one Philox stream, ``(count,)``."""
    return philox_rows(key, [stream], count)[0]


def philox_order(key: int, stream: tuple[int, int], count: int) -> NDArray[np.int64]:
    """Return a uniformly random permutation of ``0..count-1``, ``(count,)``."""
    return np.argsort(philox_uniforms(key, stream, count), kind="stable")
