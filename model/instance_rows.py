"""Many instances of one size at once: the same bytes as `model.instances` makes one after the other.

Whoever trains by reinforcement needs millions. Philox and the shuffle are written here in array
operations over all instances; the tests hold them to the slow ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import DEPOT
from mcvrp.model.random import philox_key

_MULTIPLIERS = 0xD2E7470EE14C6C93, 0xCA5A826395121157  # of Philox 4x64 (Salmon et al. 2011)
_BUMPS = 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B
_ROUNDS = 10
_LOW, _HALF, _WORD = np.uint64(2**32 - 1), np.uint64(32), 2**64

Words = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class InstanceRows:
    """Instances of one size; position 0 of a row is the depot.

    ``ids`` int64 ``(B, n + 1)`` are the city's node numbers, ascending, ``demands`` int64
    ``(B, n + 1)`` are 0 at the depot, ``capacity`` int64 ``(B,)``.
    """

    ids: NDArray[np.int64]
    demands: NDArray[np.int64]
    capacity: NDArray[np.int64]


def instance_rows(stream: InstanceStream, n: int, start: int, stop: int) -> InstanceRows:
    """Return instances (n, start) to (n, stop - 1) of ``stream``; McvrpError as the stream raises."""
    m = stream.city.customers
    first = stream(n, start)  # checks n and the rules
    low, high = stream.rules.capacity_range(n)
    smallest, largest = stream.rules.demand
    key = philox_key("instance", stream.city.city_id, str(stream.seed), stream.split)
    index = np.arange(start, stop, dtype=np.uint64)
    u = philox_rows(key, np.stack([index, np.full_like(index, n)], axis=1), 2 * n + 1)
    customers = _without_replacement(u[:, :n], m) + 1
    order = customers.argsort(axis=1)
    drawn = smallest + np.floor(u[:, n : 2 * n] * (largest - smallest + 1))
    ids = np.full((len(u), n + 1), DEPOT, dtype=np.int64)
    demands = np.zeros((len(u), n + 1), dtype=np.int64)
    ids[:, 1:] = np.take_along_axis(customers, order, axis=1)
    demands[:, 1:] = np.take_along_axis(drawn, order, axis=1)
    assert (ids[0, 1:] == first.ids).all()
    capacity = low + np.floor(u[:, 2 * n] * (high - low + 1))
    return InstanceRows(ids, demands, capacity.astype(np.int64))


def philox_rows(key: int, streams: Words, count: int) -> NDArray[np.float64]:
    """Return ``count`` doubles in [0, 1) of each of ``streams`` ``(K, 2)``, ``(K, count)``.

    Row k holds what `model.random.philox_uniforms` gives for stream k.
    """
    blocks = -(-count // 4)
    shape = (len(streams), blocks)
    counter = [
        np.broadcast_to(np.arange(1, blocks + 1, dtype=np.uint64), shape),  # it counts before it draws
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


def _without_replacement(u: NDArray[np.float64], m: int) -> NDArray[np.int64]:
    """Return distinct numbers below ``m`` in each row ``(B, n)``: a Fisher-Yates shuffle's first steps."""
    count, n = u.shape
    picks = (np.arange(n) + np.floor(u * (m - np.arange(n)))).astype(np.int64)
    shuffled = np.tile(np.arange(m, dtype=np.int32), (count, 1))
    rows = np.arange(count)
    chosen = np.empty_like(picks)
    for step in range(n):
        pick = picks[:, step]
        chosen[:, step] = shuffled[rows, pick]
        shuffled[rows, pick] = shuffled[:, step]
    return chosen
