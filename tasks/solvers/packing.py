"""Bin packing of orders into vehicles: lower and upper bounds of the number of vehicles."""

from __future__ import annotations

import math

from mcvrp.model.problem import Instance

_TO_A_VEHICLE = (
    3  # counts orders of more than 1/4 of a vehicle; with smaller orders, HGS's bound is sufficient
)


def fewest_vehicles(instance: Instance) -> int:
    """Return a lower bound of the number of vehicles.

    At most k orders that are each larger than 1 / (k + 1) of a vehicle fit into one.
    """
    demands = instance.demands.astype(int)
    large = [(k, int((demands * (k + 1) > instance.capacity).sum())) for k in range(1, _TO_A_VEHICLE + 1)]
    return max(math.ceil(int(demands.sum()) / instance.capacity), *(-(-many // k) for k, many in large))


def packed_vehicles(instance: Instance) -> int:
    """Return the number of vehicles of a first-fit decreasing packing."""
    room: list[int] = []
    for demand in sorted(instance.demands.tolist(), reverse=True):
        vehicle = next((v for v, free in enumerate(room) if free >= demand), len(room))
        if vehicle == len(room):
            room.append(instance.capacity)
        room[vehicle] -= demand
    return len(room)
