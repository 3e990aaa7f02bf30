"""Tables of a night, a round and a loop: how wide they are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City
from mcvrp.storage.trials import TrialRecord
from mcvrp.tasks.retrain.card import comparison, drifts, gained, round_table
from mcvrp.tasks.retrain.decide import DRAWN, FRESH, Bucket
from mcvrp.tasks.retrain.drift import drift
from mcvrp.tasks.retrain.labels import Mix
from mcvrp.tasks.retrain.metrics import Gains, TrialMetrics

# Characters with a bar and two spaces for each column: in a window of 1,300 pixels a page of Prefect has 728
# for a table, and draws one of 72 characters 556 wide.
WIDEST = 90


def test_tables_fit_the_page_of_a_run() -> None:
    """A large city, with costs in metres, hundreds of customers and large drift."""
    city = City.uniform(400, seed=1)
    stream = InstanceStream(city, 1, "train")
    then = [stream(n, i) for n in range(100, 110) for i in range(3)]
    now = [replace(stream(380, i), demands=np.full(380, 199), capacity=12_500) for i in range(3)]
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
        drift(city, then, now),
        Gains(120_000, 43_210, 345_678.9, 345_600.1),
    )
    record = TrialRecord("improve-1", 12, 10, 11, "d", True, ("",), applied=True)
    tables = [comparison(measured), drifts(measured), gained(measured), round_table([(record, measured)])]
    assert sum(each.alarm for each in measured.drift) == 3
    for table in "\n\n".join(tables).split("\n\n"):
        if table.startswith("|"):
            assert width(table) <= WIDEST, table


def test_large_costs_have_fewer_decimals() -> None:
    """About five significant digits."""
    buckets = tuple(Bucket(FRESH, "20", 9, cost, cost, 0.0) for cost in (4.99213, 512.345, 345_678.9))
    shown = comparison(TrialMetrics(Mix("d", {20: 1}), buckets, {}, 1.0)).splitlines()
    assert [line.split(" | ")[2] for line in shown if "n = 20" in line] == ["4.9921", "512.35", "345,679"]


def width(table: str) -> int:
    """Return the width of the table in characters, with aligned columns."""
    lines = [line.replace("**", "")[2:-2].split(" | ") for line in table.splitlines()]
    columns = zip(*(line for k, line in enumerate(lines) if k != 1), strict=True)
    return sum(max(map(len, cells)) + 3 for cells in columns) + 1
