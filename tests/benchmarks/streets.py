"""One day's routes by a model and by the search alone, side by side on the streets of their city.

python -m tests.benchmarks.streets orders.csv CITY MODEL docs/streets.png --store STORE
"""

from __future__ import annotations

import argparse
from pathlib import Path

from mcvrp.flows.day import solve
from mcvrp.tasks.solve.day import Solved
from mcvrp.tasks.solve.map import lines_of
from mcvrp.tasks.support.pictures import png, solutions


def side_by_side(one: tuple[str, Solved], other: tuple[str, Solved]) -> bytes:
    """Return two titled solutions of the same orders as PNG; the gap of the first is to the other."""
    panels, (_, day) = (one, other), other
    return png(
        solutions(
            day.planned.city,
            day.instance,
            [(title, solved.solution) for title, solved in panels],
            reference=1,
            streets=[lines_of(solved) for _, solved in panels],
        )
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    for name in ("orders", "city", "model", "picture"):
        parser.add_argument(name)
    parser.add_argument("--store")
    parser.add_argument("--capacity", type=int, help="of a vehicle, unless the orders have it")
    parser.add_argument("--samples", type=int, default=1000, help="of the model (default: 1000)")
    parser.add_argument("--seconds", type=float, default=10.0, help="of the search (default: 10)")
    given = parser.parse_args()
    ours = solve(
        given.orders,
        given.city,
        store=given.store,
        capacity=given.capacity,
        model=given.model,
        by="model",
        samples=given.samples,
        time_limit=600,
    )
    searched = solve(
        given.orders,
        given.city,
        store=given.store,
        capacity=given.capacity,
        samples=0,
        time_limit=given.seconds,
    )
    for note in (ours.ways_note, searched.ways_note):
        if note:
            print(note)
    panels = ("FM-MCVRP", ours), (searched.found_by, searched)
    Path(given.picture).write_bytes(side_by_side(*panels))
