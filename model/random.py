"""Counter-based random streams: raw Philox words and our own sampling, the same bytes on every machine.

The raw words of Philox 4x64 are the same everywhere and for ever; the methods of NumPy's Generator are
not, so everything random that must be reproducible starts from these.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray


def philox_key(*parts: str) -> int:
    """Return a 128-bit key for the random stream named by ``parts``."""
    return int.from_bytes(hashlib.sha256("\0".join(("mcvrp", *parts)).encode()).digest()[:16], "little")


def philox_uniforms(key: int, stream: tuple[int, int], count: int) -> NDArray[np.float64]:
    """Return ``count`` doubles in [0, 1) of the Philox stream ``stream`` under ``key``, ``(count,)``."""
    counter = np.array([0, *stream, 0], dtype=np.uint64)
    words = np.random.Philox(key=_two_words(key), counter=counter).random_raw(count)
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def philox_order(key: int, stream: tuple[int, int], count: int) -> NDArray[np.int64]:
    """Return a uniformly random permutation of ``0..count-1``, ``(count,)``."""
    return np.argsort(philox_uniforms(key, stream, count), kind="stable")


def _two_words(key: int) -> NDArray[np.uint64]:
    return np.array([key & (2**64 - 1), key >> 64], dtype=np.uint64)
