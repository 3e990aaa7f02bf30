"""Counter-based random streams: raw Philox words and our own sampling, the same bytes on every machine.

The raw words of Philox 4x64 are stable across platforms and versions; the methods of NumPy's Generator are
not, so all reproducible randomness derives from these words.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

_MULTIPLIERS = 0xD2E7470EE14C6C93, 0xCA5A826395121157  # of Philox 4x64 (Salmon et al. 2011)
_BUMPS = 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B
_ROUNDS = 10
_LOW, _HALF, _WORD = np.uint64(2**32 - 1), np.uint64(32), 2**64

Words = NDArray[np.uint64]


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


def philox_rows(key: int, streams: Words, count: int) -> NDArray[np.float64]:
    """Return ``count`` doubles in [0, 1) of each of ``streams`` ``(K, 2)``, ``(K, count)``.

    Row k holds what `philox_uniforms` gives for stream k.
    """
    blocks = -(-count // 4)
    shape = (len(streams), blocks)
    counter = [
        np.broadcast_to(
            np.arange(1, blocks + 1, dtype=np.uint64), shape
        ),  # Philox increments before it draws
        np.broadcast_to(streams[:, :1], shape),
        np.broadcast_to(streams[:, 1:], shape),
        np.zeros(shape, np.uint64),
    ]
    k0, k1 = key % _WORD, key // _WORD
    for _ in range(_ROUNDS):
        high0, low0 = _product(_MULTIPLIERS[0], counter[0])
        high1, low1 = _product(_MULTIPLIERS[1], counter[2])
        counter = [high1 ^ counter[1] ^ np.uint64(k0), low1, high0 ^ counter[3] ^ np.uint64(k1), low0]
        k0, k1 = (k0 + _BUMPS[0]) % _WORD, (k1 + _BUMPS[1]) % _WORD
    words = np.stack(counter, axis=-1).reshape(len(streams), -1)[:, :count]
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _product(a: int, b: Words) -> tuple[Words, Words]:
    """Return the high and the low word of the 128-bit product ``a`` times ``b``."""
    a_low, a_high = np.uint64(a & int(_LOW)), np.uint64(a >> 32)
    b_low, b_high = b & _LOW, b >> _HALF
    middle = a_high * b_low + ((a_low * b_low) >> _HALF)
    other = a_low * b_high + (middle & _LOW)
    return a_high * b_high + (middle >> _HALF) + (other >> _HALF), np.uint64(a) * b


def _two_words(key: int) -> NDArray[np.uint64]:
    return np.array([key & (2**64 - 1), key >> 64], dtype=np.uint64)
