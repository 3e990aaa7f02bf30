"""Drift of fresh days, and tables of a night, a round and a loop."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City, Instance
from mcvrp.tasks.retrain.drift import drift

# Characters with a bar and two spaces for each column: in a window of 1,300 pixels a page of Prefect has 728
# for a table, and draws one of 72 characters 556 wide.
CITY = City.uniform(400, seed=1)
STREAM = InstanceStream(CITY, 1, "train")
THEN = [STREAM(n, i) for n in range(20, 30) for i in range(20)]
NOW = [STREAM(n, i) for n in range(20, 30) for i in range(20, 40)]


def moved(instance: Instance) -> Instance:
    corner = np.flatnonzero((CITY.unit_xy[1:] < 0.5).all(axis=1))[: instance.n] + 1
    return replace(instance, ids=corner.astype(np.uint32))


def test_equal_sides_do_not_differ() -> None:
    assert all(each.distance == 0 for each in drift(CITY, THEN, THEN))
    assert not any(each.alarm for each in drift(CITY, THEN, NOW))
    assert drift(CITY, THEN, []) == drift(CITY, [], NOW) == ()


@pytest.mark.parametrize(
    ("name", "now"),
    [
        ("demand of a customer", [replace(i, demands=np.minimum(i.demands + 4, 30)) for i in NOW]),
        ("customers per day", [STREAM(40, i) for i in range(50)]),
        ("capacity of a vehicle", [replace(i, capacity=i.capacity + 10) for i in NOW]),
        ("orders by zone", [moved(instance) for instance in NOW]),
    ],
)
def test_what_has_moved_raises_the_alarm(name: str, now: list[Instance]) -> None:
    assert name in [each.name for each in drift(CITY, THEN, now) if each.alarm]
