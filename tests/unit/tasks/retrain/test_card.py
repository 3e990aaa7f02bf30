"""Drift of fresh days, and tables of a night, a round and a loop."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City, Instance
from mcvrp.storage.trials import TrialRecord
from mcvrp.tasks.retrain.card import Gains, TrialMetrics, comparison, drifts, gained, round_table
from mcvrp.tasks.retrain.decide import DRAWN, FRESH, Bucket
from mcvrp.tasks.retrain.drift import drift
from mcvrp.tasks.retrain.labels import Mix

# Characters with a bar and two spaces for each column: in a window of 1,300 pixels a page of Prefect has 728
# for a table, and draws one of 72 characters 556 wide.
WIDEST = 90
CITY = City.uniform(400, seed=1)
STREAM = InstanceStream(CITY, 1, "train")
THEN = [STREAM(n, i) for n in range(20, 30) for i in range(20)]
NOW = [STREAM(n, i) for n in range(20, 30) for i in range(20, 40)]


def test_tables_fit_the_page_of_a_run() -> None:
    """A large city, with costs in metres, hundreds of customers and large drift."""
    then = [STREAM(n, i) for n in range(100, 110) for i in range(3)]
    now = [replace(STREAM(380, i), demands=np.full(380, 199), capacity=12_500) for i in range(3)]
    measured = TrialMetrics(
        Mix("d", {20: 5714}, 1714, 20),
        tuple(
            Bucket(part, sizes, 12_000, cost, cost, -12.345)
            for part in (DRAWN, FRESH)
            for sizes in ("20-24", "300-400")
            for cost in (4.9921, 99.99994, 345_678.9)
        ),
        {DRAWN: 1.234e-9},
        86_399.0,
        drift(CITY, then, now),
        Gains(120_000, 43_210, 345_678.9, 345_600.1),
    )
    record = TrialRecord("improve-1", 12, 10, 11, "d", True, ("",), applied=True)
    tables = [comparison(measured), drifts(measured), gained(measured), round_table([(record, measured)])]
    assert sum(each.alarm for each in measured.drift) == 3
    for table in "\n\n".join(tables).split("\n\n"):
        if table.startswith("|"):
            assert width(table) <= WIDEST, table


def test_large_costs_have_fewer_decimals() -> None:
    buckets = tuple(Bucket(FRESH, "20", 9, cost, cost, 0.0) for cost in (4.99213, 512.345, 345_678.9))
    shown = comparison(TrialMetrics(Mix("d", {20: 1}), buckets, {}, 1.0)).splitlines()
    assert [line.split(" | ")[2] for line in shown if "n = 20" in line] == ["4.9921", "512.35", "345,679"]


def width(table: str) -> int:
    lines = [line.replace("**", "")[2:-2].split(" | ") for line in table.splitlines()]
    columns = zip(*(line for k, line in enumerate(lines) if k != 1), strict=True)
    return sum(max(map(len, cells)) + 3 for cells in columns) + 1


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
