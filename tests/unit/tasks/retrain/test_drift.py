"""Drift: none between equal data, an alarm if demand, size, capacity or locations change."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City, Instance
from mcvrp.tasks.retrain.drift import drift

CITY = City.uniform(400, seed=1)
STREAM = InstanceStream(CITY, 1, "train")
THEN = [STREAM(n, i) for n in range(20, 30) for i in range(20)]
NOW = [STREAM(n, i) for n in range(20, 30) for i in range(20, 40)]


def moved(instance: Instance) -> Instance:
    """Return the same demands at customers in the south-west."""
    corner = np.flatnonzero((CITY.unit_xy[1:] < 0.5).all(axis=1))[: instance.n] + 1
    return replace(instance, ids=corner.astype(np.uint32))


def test_equal_sides_do_not_differ() -> None:
    """The distance to itself is 0, to another sample of the same distribution it is small."""
    assert all(each.distance == 0 for each in drift(CITY, THEN, THEN))
    assert not any(each.alarm for each in drift(CITY, THEN, NOW))


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
    """The distance of the changed property is large."""
    assert name in [each.name for each in drift(CITY, THEN, now) if each.alarm]


def test_nothing_to_compare_is_no_drift() -> None:
    """No drift without days on one side."""
    assert drift(CITY, THEN, []) == drift(CITY, [], NOW) == ()
