"""Packing of orders into vehicles, whatever the way: how many are needed, how many are enough."""

from __future__ import annotations

import math

from mcvrp.model.problem import Instance

_TO_A_VEHICLE = 3  # orders of more than a fourth of a vehicle: beyond, HGS's own bound is enough


def fewest_vehicles(instance: Instance) -> int:
    """Return a number of vehicles that no solution can do without.

    Of orders that each take more than 1 / (k + 1) of a vehicle, no more than k go into one.
    """
    demands = instance.demands.astype(int)
    large = [(k, int((demands * (k + 1) > instance.capacity).sum())) for k in range(1, _TO_A_VEHICLE + 1)]
    return max(math.ceil(int(demands.sum()) / instance.capacity), *(-(-many // k) for k, many in large))


def packed_vehicles(instance: Instance) -> int:
    """Return a number of vehicles that is enough: the largest orders first, each into the first with room."""
    room: list[int] = []
    for demand in sorted(instance.demands.tolist(), reverse=True):
        vehicle = next((v for v, free in enumerate(room) if free >= demand), len(room))
        if vehicle == len(room):
            room.append(instance.capacity)
        room[vehicle] -= demand
    return len(room)
