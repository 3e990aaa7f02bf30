"""The contract of a solver, over every registered one: a new entry of the registry is tested by itself."""

from __future__ import annotations

import os
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.model.instances import InstanceStream, Rules
from mcvrp.model.problem import City, Instance, Solution, cost, infeasibility
from mcvrp.tasks.solvers.local_search import random_solution
from mcvrp.tasks.solvers.registry import SOLVERS
from mcvrp.tasks.solvers.solver import Limits, Solver, SolverFailed, SolverMissing, longest_route
from tests.support.answers import require_answer

CITY = City.uniform(60, seed=3)
ROADS = np.random.default_rng(2).integers(1, 1000, (61, 61)).astype(float)
ONE_WAY = City(CITY.xy, ROADS)
CITIES = [CITY, City(CITY.xy, (ROADS + ROADS.T) / 2), ONE_WAY]
SUPPORTED = {"straight": 1, "any": 3}  # number of these cities, in order
ORDERS = Rules(capacity=(20, 40))

each_solver = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.lkh] if name == "lkh3" else []) for name in SOLVERS]
)
each_search = pytest.mark.parametrize("name", [name for name, entry in SOLVERS.items() if entry.starts])


def made(name: str, make: str = "make", **options: Any) -> Any:
    """Return the solver with a short budget that is deterministic if it has one."""
    takes = SOLVERS[name].takes
    budget = {"iterations": 50} if "iterations" in takes else {"time_limit": 0.1}
    try:
        return getattr(SOLVERS[name], make)(**budget, **options)
    except SolverMissing:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"the program of {name} is not installed")


def days(n: int, count: int = 1, city: City = CITY) -> list[Instance]:
    return [InstanceStream(city, 1, "test", ORDERS)(n, i) for i in range(count)]


def costs(solver: Solver, day: Instance, samples: int = 1, seed: int = 1, city: City = CITY) -> list[float]:
    (answer,) = solver.solve(city, [day], samples=samples, seed=seed)
    require_answer(city, day, answer, samples=samples)
    return answer.costs.tolist()


@each_solver
@pytest.mark.parametrize("n", [1, 2, 25])
@pytest.mark.parametrize("seed", [0, 1, 2**32, 2**70])
def test_answers_are_feasible_canonical_and_priced_by_us(name: str, n: int, seed: int) -> None:
    """One per instance, in order, for seeds of any size, and for a single customer."""
    instances = days(n, 2)
    answers = made(name).solve(CITY, instances, samples=2, seed=seed)
    for instance, answer in zip(instances, answers, strict=True):
        require_answer(CITY, instance, answer, samples=2)


@each_solver
def test_tight_and_wide_vehicles(name: str) -> None:
    """Each order fills a vehicle, wholly or nearly; all fit into one; the largest numbers of a label."""
    ids = np.arange(1, 13, dtype=np.uint32)
    for demand, capacity, routes in ((7, 7, 12), (7, 10, 12), (1, 10**6, None), (2**16 - 1, 2**32 - 1, None)):
        day = Instance(CITY.city_id, ids, np.full(12, demand, np.uint16), capacity)
        (answer,) = made(name).solve(CITY, [day], samples=1, seed=1)
        solution = require_answer(CITY, day, answer)
        assert routes in (None, len(solution.routes))


@each_solver
def test_the_same_seed_gives_the_same_answer(name: str) -> None:
    """Samples are runs with consecutive seeds, one sample is the first of three; pickling changes nothing."""
    if "iterations" not in SOLVERS[name].takes:
        pytest.skip("a run with a time limit depends on the machine")
    solver, (day,) = made(name), days(40)
    first, _, last = costs(solver, day, samples=3, seed=5)
    assert [first, last] == [*costs(solver, day, seed=5), *costs(solver, day, seed=7)]
    assert costs(pickle.loads(pickle.dumps(solver)), day, seed=5) == [first]
    entry = pickle.loads(pickle.dumps(SOLVERS[name]))  # as workers receive it
    assert entry == SOLVERS[name]


@each_solver
def test_the_unit_of_the_city_does_not_matter(name: str) -> None:
    """The same city in metres, somewhere on the map, has the same routes at 5,000 times the cost."""
    if "iterations" not in SOLVERS[name].takes:
        pytest.skip("a run with a time limit depends on the machine")
    metres = City(5000 * CITY.xy + 1e6, None, (1e6, 1e6), 5000.0, "m")
    (day,) = days(30)
    in_metres = Instance(metres.city_id, day.ids, day.demands, day.capacity)
    (scaled,) = costs(made(name), in_metres, city=metres)
    assert scaled == pytest.approx(5000 * costs(made(name), day)[0], rel=1e-6)


@each_solver
def test_it_solves_the_costs_that_it_claims_and_refuses_others(name: str) -> None:
    """Refused both by its entry, before a run, and by itself, with the way to another solver."""
    supported = SUPPORTED[SOLVERS[name].costs]
    for k, city in enumerate(CITIES):
        (day,) = days(20, city=city)
        if k < supported:
            SOLVERS[name].require_costs(city)
            costs(made(name), day, city=city)
            continue
        for refuse in (SOLVERS[name].require_costs, lambda city, day=day: costs(made(name), day, city=city)):
            with pytest.raises(McvrpError, match="use hgs or pyvrp"):
                refuse(city)


@each_solver
def test_orders_of_another_city_are_refused(name: str) -> None:
    with pytest.raises(McvrpError, match="city"):
        list(made(name).solve(City.uniform(60, seed=4), days(10), samples=1, seed=1))


def searched(
    name: str, day: Instance, limits: Limits, starts: Sequence[Solution] = ()
) -> Solution | SolverFailed:
    try:
        return made(name, "search", **limits.given).search(CITY, day, 1, starts)  # type: ignore[no-any-return]
    except SolverFailed as error:
        return error


@each_search
def test_a_search_from_solutions_is_feasible_and_not_worse(name: str) -> None:
    """From none, and from more than it takes; the best of the starts is never made worse."""
    (day,) = days(25)
    good = searched(name, day, Limits())
    assert isinstance(good, Solution)
    starts = [good, *(random_solution(day, seed) for seed in range(SOLVERS[name].starts + 2))]
    again = searched(name, day, Limits(), starts)
    assert isinstance(again, Solution)
    assert infeasibility(day, again) is None
    assert cost(CITY, again) <= cost(CITY, good) * (1 + 1e-6)


@each_search
@pytest.mark.parametrize("limit", ["fleet", "longest_route"])
def test_limits_that_it_claims_are_kept(name: str, limit: str) -> None:
    """The limits of its best routes, and narrower ones: routes within them, or a failure with a reason.

    Limits that it does not claim are not given to it.
    """
    entry, (day,) = SOLVERS[name], days(20)
    free = searched(name, day, Limits())
    assert isinstance(free, Solution)
    value: Any = {"fleet": len(free.routes), "longest_route": longest_route(CITY, free)}[limit]
    assert entry.keeps(Limits(**{limit: value})) == (limit in entry.limits)
    if limit not in entry.limits:
        return
    for share in (1.0, 0.9, 0.01):
        narrow: Any = max(1, int(share * value)) if limit == "fleet" else share * value
        limits = Limits(**{limit: narrow})
        for starts in ((), (free,)):
            solution = searched(name, day, limits, starts)
            if isinstance(solution, SolverFailed):
                assert share < 1 or not starts
                assert str(solution)
                continue
            assert infeasibility(day, solution) is None
            assert limits.broken(CITY, solution) is None
