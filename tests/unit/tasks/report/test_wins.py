"""Wins: another order of the same routes is not a win, in any unit and order of summation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mcvrp.model.decoding import Decoded
from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City, Instance, Solution, cost
from mcvrp.storage.benchmarks import PartRow, write_results
from mcvrp.storage.store.store import Store
from mcvrp.tasks.benchmark.results import results_frame
from mcvrp.tasks.report.metrics import wins
from mcvrp.tasks.report.paper import paper_tables
from mcvrp.tasks.report.tables import benchmark_table
from tests.support.paper_shaped import paper_shaped
from tests.support.sweep import sweep

SIZE, INSTANCES = 400, 20
Priced = Callable[[City, Instance, Solution], float]


def decoded(city: City, instance: Instance, solution: Solution) -> float:
    return float(Decoded.of(city, instance, solution.path[None].astype(np.int32)).costs[0])


WAYS: tuple[Priced, ...] = (
    lambda city, _, solution: cost(city, solution),
    decoded,
    # stored results may have been summed in these two ways
    lambda city, _, solution: sum(city.legs(solution.path).tolist()),
    lambda city, _, solution: float(city.legs(solution.path).sum()),
)


def reordered(solution: Solution, rng: np.random.Generator) -> Solution:
    """Return the same routes in another order, each in either direction."""
    routes = [solution.routes[k] for k in rng.permutation(len(solution.routes))]
    return Solution.of(route[::-1] if rng.random() < 0.5 else route for route in routes)


def same_routes(city: City, rng: np.random.Generator) -> Iterator[PartRow]:
    """Yield the rows of a benchmark in which all samples of all methods have the same routes."""
    stream = InstanceStream(city, 1, "test")
    for row in paper_shaped(city, INSTANCES, (SIZE,), failures=False):
        instance = stream(row.n, row.index)
        routes = sweep(city, instance)
        costs = [way(city, instance, reordered(routes, rng)) for way in WAYS for _ in range(2)]
        yield replace(row, costs=tuple(rng.choice(costs, len(row.costs)).tolist()))


@pytest.mark.parametrize("side", [20_000.0, 0.02])
def test_the_same_routes_are_not_a_win_in_any_table(tmp_path: Path, side: float) -> None:
    city = City.framed(City.uniform(1000, seed=3).xy * side)
    rows = list(same_routes(city, np.random.default_rng(1)))
    frame = results_frame(write_results(Store.open(tmp_path), "b", rows))
    tables = (benchmark_table(frame), *paper_tables(frame, trained_up_to=SIZE))
    counted = {(table.name, line.name): line.wins for table in tables for line in table.lines}
    assert len(counted) > 30
    assert set(counted.values()) <= {0, None}
    assert sum(count == 0 for count in counted.values()) > 20


@pytest.mark.parametrize("side", [20_000.0, 1.0, 0.02])
def test_shorter_routes_are_a_win_in_any_unit(side: float) -> None:
    base = side * np.linspace(5, 50, 100)
    assert (wins(base * (1 - 1e-5), base), wins(base * (1 + 1e-5), base)) == (len(base), 0)
