"""The problem: cost, feasibility and canonical order against closed forms and slow, obvious references."""

from __future__ import annotations

import cmath
import itertools
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st
from scipy.sparse.csgraph import minimum_spanning_tree

from mcvrp.model.canonical_form import canonical
from mcvrp.model.city import MOST_COST, dearest_leg, no_road
from mcvrp.model.decoding import Decoded
from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City, Instance, Solution, cost, gap, infeasibility
from mcvrp.model.random import philox_key, philox_order, philox_rows, philox_uniforms
from mcvrp.shared_array import shared

CITY = City.uniform(30, seed=7)
_COSTS = CITY.costs(np.arange(31))
TRIPLED = City(CITY.xy, 3 * _COSTS)  # a symmetric matrix changes costs, no canonical form
ONE_WAY = City(CITY.xy, _COSTS + np.triu(np.ones_like(_COSTS), 1))  # routes keep their direction
FRAME = [[0.5, 0.5], [0.0, 1.0], [1.0, 0.0]]


@st.composite
def solutions(draw: st.DrawFn, customers: int = 30) -> Solution:
    """Some customers of a city of ``customers``, in routes."""
    nodes = draw(st.lists(st.integers(1, customers), unique=True, min_size=1))
    cuts = sorted(draw(st.sets(st.integers(1, len(nodes)), max_size=8)) | {0, len(nodes)})
    return Solution.of(nodes[a:b] for a, b in itertools.pairwise(cuts))


def instance_for(solution: Solution, seed: int, city: City = CITY) -> Instance:
    """An instance that ``solution`` serves, with no room to spare on its fullest route."""
    ids = sorted(node for route in solution.routes for node in route)
    demands = np.random.default_rng(seed).integers(1, 10, len(ids))
    demand = dict(zip(ids, demands, strict=True))
    capacity = max(sum(demand[node] for node in route) for route in solution.routes)
    return Instance(city.city_id, np.array(ids), demands, int(capacity))  # type: ignore[arg-type]


# Cities


@pytest.mark.parametrize("read_only", [False, True])
def test_a_city_stays_as_it_is_made(read_only: bool) -> None:
    """Also if it is made of a read-only view, whose memory its owner changes."""
    owned = TRIPLED.costs(np.arange(31))
    given = owned[:]
    given.setflags(write=not read_only)
    city = City(CITY.xy, given)
    owned[0, 1] += 1.0
    assert city.city_id == TRIPLED.city_id
    assert np.array_equal(np.asarray(city.matrix), np.asarray(TRIPLED.matrix))
    with pytest.raises(ValueError, match="read-only"):
        city.xy[0] = 1


def test_a_large_matrix_is_in_memory_that_processes_share() -> None:
    """It is copied there once, and not changed afterwards; so it is for older cities and equal ones."""
    rng = np.random.default_rng(1)
    given = rng.random((400, 400))
    city = City(rng.random((400, 2)), given, extends=(380,))
    before = given.copy()
    given += 1
    assert np.array_equal(np.asarray(city.matrix), before)
    for each in (city, city.ancestor(0), replace(city, spare=3)):
        assert np.shares_memory(np.asarray(each.matrix), np.asarray(city.matrix))
        assert shared(np.asarray(each.matrix)) is each.matrix
    with pytest.raises(McvrpError, match="from node 0 to node 1"):
        City(city.xy, -before * (1 - np.eye(400)))


def test_orders_by_the_ids_of_the_company() -> None:
    """Orders in any order become an instance in node numbers, routes the company's ids again."""
    ids = ("depot", *(f"C{10_240 + k}" for k in range(1, 31)))
    city = City(CITY.xy, address_ids=ids)
    assert city.city_id == CITY.city_id
    day = Instance.of(city, {"C10244": 7, "C10241": 3}, capacity=9)
    assert (day.ids.tolist(), day.demands.tolist(), day.capacity) == ([1, 4], [3, 7], 9)
    assert city.ids_of(Solution.of([[4, 1]]).routes[0]) == ["C10244", "C10241"]
    same = Instance.of(CITY, {4: 7, "1": 3}, capacity=9)  # without ids: node numbers
    assert (same.ids.tolist(), CITY.ids_of([4, 1])) == ([1, 4], ["4", "1"])
    with pytest.raises(McvrpError, match=r"'C1024' is not an address of the city"):
        Instance.of(city, {"C1024": 1}, capacity=9)
    with pytest.raises(McvrpError, match="not the depot"):
        Instance.of(city, {"depot": 1}, capacity=9)
    with pytest.raises(McvrpError, match="at least one customer"):
        Instance.of(city, {}, capacity=9)
    with pytest.raises(McvrpError, match="are a list, not the text 'C10241'"):
        city.nodes("C10241")


def test_ids_of_two_unicode_forms_are_one() -> None:
    """An é of two characters is the é of one, in ids of a city and of orders; two such ids are refused."""
    one, two = "Caf\u00e9", "Cafe\u0301"
    for own, other in ((one, two), (two, one)):
        city = City(CITY.xy[:3], address_ids=("depot", own, "b"))
        assert Instance.of(city, {other: 3, "b": 1}, capacity=9).ids.tolist() == [1, 2]
        assert city.ids_of([1]) == [one]
    with pytest.raises(McvrpError, match="each address its own id"):
        City(CITY.xy[:3], address_ids=("depot", one, two))


def test_an_older_city_has_the_ids_of_its_nodes() -> None:
    ids = tuple(f"C{k}" for k in range(31))
    grown = City(CITY.xy, extends=(20,), scale=1.0, address_ids=ids)
    assert grown.ancestor(0).address_ids == ids[:21]


@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(0, 5), st.booleans())
def test_landmarks_are_far_from_each_other(seed: int, customers: int, count: int, matrix: bool) -> None:
    """An independent choice, address by address; later addresses change nothing."""
    rng = np.random.default_rng(seed)
    costs = rng.integers(0, 50, (customers + 1, customers + 1)).astype(float)
    np.fill_diagonal(costs, 0.0)
    city = City.uniform(customers, seed=1)
    city = replace(city, matrix=costs) if matrix else city
    both = city.costs(np.arange(customers + 1))
    both = (both + both.T) / 2
    marks: list[int] = [0]
    for _ in range(count):
        marks.append(max(range(customers + 1), key=lambda k: min(both[k, mark] for mark in marks)))
    expected = both[:, marks[1:]]
    expected = expected / (expected.max(initial=0.0) or 1.0)
    np.testing.assert_allclose(city.landmark_costs(count), expected, rtol=1e-12)
    if customers > 1:
        older = replace(city, extends=(customers - 1,)).ancestor(0)
        grown = replace(city, extends=(customers - 1,))
        assert np.array_equal(grown.landmark_costs(count)[:customers], older.landmark_costs(count))


@given(
    st.integers(0, 2**32 - 1),
    st.integers(3, 40),
    st.sampled_from([1e-3, 1.0, 1e4]),
    st.sampled_from([1e9, 1e12]),
    st.integers(1, 8),
)
@example(0, 40, 1.0, 1e9, 3)
def test_legs_without_a_road_are_those_beyond_all_others(
    seed: int, nodes: int, side: float, far: float, zones: int
) -> None:
    """Against SciPy's spanning tree; without such legs there are none, and features and units are theirs.

    The depot reaches all zones, which have no other roads to each other: more than half of the legs may be
    closed.
    """
    rng = np.random.default_rng(seed)
    xy = rng.uniform(0.1, 0.9, (nodes, 2))
    plain = City(xy, matrix=City(xy).costs(np.arange(nodes)) * side)
    assert plain.matrix is not None
    assert no_road(plain.matrix) == MOST_COST
    assert dearest_leg(plain.matrix) == plain.matrix.max()
    closed = plain.matrix.copy()
    for a, b in rng.integers(0, nodes, (nodes // 4, 2)):
        if a != b:
            closed[a, b] = far
    zone = np.arange(nodes) % zones
    closed[1:, 1:][zone[1:, None] != zone[1:]] = far
    both = np.maximum(closed, closed.T)
    longest = minimum_spanning_tree(both).max()
    if longest < far:  # all nodes are connected by roads
        assert no_road(closed) == (min(MOST_COST, 1e3 * longest) if (closed == far).any() else MOST_COST)
        assert dearest_leg(closed) == closed[closed < far].max()
        spread = replace(plain, matrix=closed).landmark_costs(2).std(axis=0)
        assert (spread > 0.1 * plain.landmark_costs(2).std(axis=0)).all()
    assert (closed[closed >= no_road(closed)] == far).all()


@pytest.mark.parametrize("route", [[1.9], ["2"], [None], [3, 2.0]])
def test_a_route_with_anything_but_integers_is_refused(route: list[Any]) -> None:
    calls: tuple[Callable[[list[Any]], object], ...] = (
        CITY.ids_of,
        lambda route: Solution.of([route]),
        lambda route: cost(CITY, Solution((tuple(route),))),
    )
    for call in calls:
        with pytest.raises(
            (McvrpError, TypeError), match=r"^nodes are integers|cannot be interpreted as an integer$"
        ):
            call(route)


@pytest.mark.parametrize("node", [-1, 31])
@pytest.mark.parametrize("city", [CITY, TRIPLED, City(CITY.xy, address_ids=tuple(map(str, range(31))))])
def test_a_route_with_a_node_of_no_address_is_refused(city: City, node: int) -> None:
    """A negative one would be counted from the last customer."""
    route = [1, node]
    for call in (city.ids_of, lambda route: cost(city, Solution.of([route]))):
        with pytest.raises(McvrpError, match=f"^{node} is not a node of the city, whose nodes are 0 to 30: "):
            call(route)
    assert city.ids_of([]) == []


def test_a_city_is_the_same_on_every_machine() -> None:
    """The content hash of a synthetic city is a fixed string: coordinates included."""
    assert City.uniform(100, 1).city_id == "5d6a698ff89cce28"
    assert City.uniform(100, 1).xy[1].tolist() == [0.17921740770989425, 0.36595732992070407]


def test_city_id_tells_apart_what_costs_differently() -> None:
    """Coordinates, frame, unit and matrix each change the id; equal content keeps it."""
    xy = np.array([[0.0, 0], [1, 0], [0, 1]])
    matrix = np.ones((3, 3))
    cities = [
        City(xy),
        City(xy[[1, 0, 2]]),
        City(xy, scale=2.0),
        City(xy, origin=(-0.0, -0.5), scale=2.0),
        City(xy, unit="m"),
        City(xy, matrix),
        City(xy, 2 * matrix),
    ]
    assert len({city.city_id for city in cities}) == len(cities)
    assert City(xy.copy(), matrix.copy()).city_id == City(xy, matrix).city_id


@pytest.mark.parametrize(
    ("xy", "options", "message"),
    [
        ([[0, 0]], {}, "depot first"),
        ([[0, 0], [1, 0]], {"address_ids": ("a",)}, "has 1 address_ids: give one per node"),
        ([[0, 0], [1, 0]], {"address_ids": ("a", "a")}, "each address its own id"),
        ([[0, 0], [0, math.nan]], {}, "node 1 .* no finite coordinates"),
        ([[0, 0], [2, 0]], {}, "node 1 lies outside the city's frame"),
        ([*FRAME, [1.2, 0.5]], {}, "node 3 lies outside"),
        ([*FRAME, [1.22, 0.5]], {"extends": (2,)}, "node 3 lies outside"),  # by more than `MARGIN`
        *((FRAME, {"extends": extends}, "cannot extend") for extends in ((2,), (0,), (2, 1), (4,))),
        ([[0, 0], [1, 0]], {"scale": 0.0}, "scale"),
        ([[0, 0], [1, 0]], {"matrix": np.ones((3, 3))}, "shape"),
        ([[0, 0], [1, 0]], {"matrix": np.array([[0, -1], [1, 0]])}, "from node 0 to node 1"),
    ],
)
def test_an_invalid_city_is_rejected(xy: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(McvrpError, match=message):
        City(xy, **options)
    assert City(np.array([*FRAME, [1.2, 0.5]]), extends=(2,)).customers == 3


# Costs


def test_cost_from_a_matrix_minds_the_direction() -> None:
    matrix = np.array([[0, 1, 10], [100, 0, 1000], [10000, 100000, 0.0]])
    city = City(CITY.xy[:3], matrix)
    assert cost(city, Solution.of([[1, 2]])) == 1 + 1000 + 10000
    assert cost(city, Solution.of([[2, 1]])) == 10 + 100000 + 100
    assert not city.symmetric
    assert City(CITY.xy[:3], matrix + matrix.T).symmetric
    assert city.costs(np.array([2, 0])).tolist() == [[0, 10000], [10, 0]]


@given(solutions())
def test_cost_is_the_sum_of_all_legs(solution: Solution) -> None:
    """The cost equals a plain walk along every route, and a matrix of distances costs the same."""
    xy = CITY.xy.tolist()
    walk = sum(
        math.dist(xy[a], xy[b])
        for route in solution.routes
        for a, b in zip((0, *route), (*route, 0), strict=True)
    )
    assert cost(CITY, solution) == pytest.approx(walk, abs=1e-9)
    as_matrix = City(CITY.xy, CITY.costs(np.arange(31)))
    assert cost(as_matrix, solution) == pytest.approx(walk, abs=1e-9)
    assert cost(CITY, Solution(())) == 0.0


# Instances and solutions


@pytest.mark.parametrize(
    ("ids", "demands", "capacity", "message"),
    [
        ([], [], 9, "at least one customer"),
        ([1], [], 9, "one demand a customer"),
        ([1, 2], [1], 9, "one demand a customer"),
        ([0, 2], [1, 1], 9, "not the depot"),
        ([2, 1], [1, 1], 9, "ascending"),
        ([2, 2], [1, 1], 9, "distinct"),
        ([3, 5], [1, 0], 9, "customer 5 has no demand"),
        ([3, 5], [1, 10], 9, "customer 5 wants 10, a vehicle holds 9"),
        ([3, 5], [1, 70_000], 9, "a demand is a whole number from 0 to 65535, not 70000"),
        ([3, 5], [1, 2], 8.9, "a capacity is a whole number .*, not 8.9"),
        ([-1, 5], [1, 1], 9, "customer's number is a whole number .*, not -1"),
    ],
)
def test_an_invalid_instance_is_rejected(
    ids: list[int], demands: list[int], capacity: object, message: str
) -> None:
    with pytest.raises(McvrpError, match=message):
        Instance("c", np.array(ids, dtype=int), np.array(demands, dtype=int), capacity)  # type: ignore[arg-type]


@given(solutions())
def test_a_path_is_a_solution_written_flat(solution: Solution) -> None:
    """Routes survive the way to a depot-separated sequence and back; extra depots mean nothing."""
    path = solution.path.tolist()
    assert Solution.from_path(path) == solution
    assert Solution.from_path([0, 0, *path, 0]) == solution
    assert len(path) == sum(map(len, solution.routes)) + len(solution.routes) + 1


def violations(instance: Instance, solution: Solution) -> bool:
    """True if ``solution`` fails ``instance``, as slowly and plainly as can be."""
    demand = dict(zip(instance.ids.tolist(), instance.demands.tolist(), strict=True))
    served = Counter(node for route in solution.routes for node in route)
    if served != Counter(list(demand)):
        return True
    return any(sum(demand[node] for node in route) > instance.capacity for route in solution.routes)


def test_equal_costs_have_no_gap() -> None:
    """Also where both are 0: a day of one order at the depot's own address."""
    assert gap(0.0, 0.0) == 0
    assert gap(3.0, 2.0) == 50
    assert gap(np.array([0.0, 2.0, 3.0]), np.array([0.0, 1.0, 4.0])).tolist() == [0, 100, -25]


@given(solutions(), st.data(), st.integers(0, 99))
def test_feasibility_agrees_with_the_definition(asked: Solution, data: st.DataObject, seed: int) -> None:
    """Served exactly once within capacity, and nothing else, is feasible."""
    instance = instance_for(asked, seed)
    nodes = [node for route in asked.routes for node in route]
    kind = data.draw(st.sampled_from(["other", "regrouped", "one more", "one fewer"]))
    if kind == "other":
        answer = data.draw(solutions())
    elif kind == "regrouped":
        shuffled = data.draw(st.permutations(nodes))
        size = data.draw(st.integers(1, len(nodes)))
        answer = Solution.of(shuffled[k : k + size] for k in range(0, len(nodes), size))
    elif kind == "one more":
        answer = Solution.of([*asked.routes, [data.draw(st.integers(1, 30))]])
    else:
        answer = Solution.of([*asked.routes[:-1], asked.routes[-1][1:]])
    assert infeasibility(instance, asked) is None
    assert (infeasibility(instance, answer) is not None) == violations(instance, answer)


@pytest.mark.parametrize(
    ("routes", "reason"),
    [
        ([[1, 2], [3]], None),
        ([[1, 2]], "customer 3 not served (1 missing)"),
        ([[1, 2], [3, 1]], "customer 1 served twice"),
        ([[1, 2], [3, 4]], "node 4 of route 2 is not a customer of the instance"),
        ([[1, 2], [3, 0]], "node 0 of route 2 is not a customer of the instance"),
        ([[3], [1, 2]], None),
        ([[1, 2, 3]], "route 1 carries 11, a vehicle holds 10"),
    ],
)
def test_the_reason_is_named(routes: list[list[int]], reason: str | None) -> None:
    instance = Instance("c", np.array([1, 2, 3]), np.array([2, 4, 5]), 10)
    assert infeasibility(instance, Solution(tuple(map(tuple, routes)))) == reason


# Canonical order


def reference_canonical(city: City, solution: Solution) -> list[tuple[int, ...]]:
    """Orientation by a sum of cross products in complex numbers, order by phase."""
    place = {node: complex(*(city.xy[node] - city.xy[0]).tolist()) for node in range(len(city.xy))}
    routes = []
    for route in solution.routes:
        polygon = [0j, *(place[node] for node in route), 0j]
        area = sum((a.conjugate() * b).imag for a, b in itertools.pairwise(polygon))
        turned = area < -1e-15 or (abs(area) <= 1e-15 and route[-1] < route[0])
        routes.append(tuple(reversed(route)) if turned and city.symmetric else route)

    def angle(route: tuple[int, ...]) -> float:
        return cmath.phase(sum(place[node] for node in route) / len(route)) % (2 * math.pi)

    return sorted(routes, key=lambda route: (angle(route), min(route)))


@given(solutions())
def test_canonical_agrees_with_the_definition(solution: Solution) -> None:
    for city in (CITY, TRIPLED, ONE_WAY):
        assert list(canonical(city, solution).routes) == reference_canonical(city, solution)


@given(solutions(), st.randoms(use_true_random=False))
def test_canonical_forgets_how_a_solution_was_written(solution: Solution, random: object) -> None:
    """Shuffled and reversed routes have one canonical form, which is its own, at the same cost."""
    routes = [r[::-1] if random.random() < 0.5 else r for r in solution.routes]  # type: ignore[attr-defined]
    random.shuffle(routes)  # type: ignore[attr-defined]
    once = canonical(CITY, solution)
    assert canonical(CITY, Solution(tuple(routes))) == once
    assert canonical(CITY, once) == once
    assert cost(CITY, once) == pytest.approx(cost(CITY, solution), abs=1e-9)
    assert Counter(map(frozenset, once.routes)) == Counter(map(frozenset, solution.routes))


def test_ties_go_to_the_smallest_node() -> None:
    """Routes on one ray from the depot, and routes that enclose nothing, still have one form."""
    city = City(np.array([[0.0, 0], [0.25, 0], [0.5, 0], [0.75, 0], [1, 0]]))
    assert canonical(city, Solution.of([[4, 2], [3, 1]])).routes == ((1, 3), (2, 4))


# Random numbers


def test_random_numbers_are_the_same_on_every_machine() -> None:
    """Golden values of the version that was checked against Random123's known answers of Philox 4x64-10."""
    key = philox_key("city", "1")
    assert key == 0x9FD5F673A23405789FD985E950F9C967
    assert philox_uniforms(key, (2**64 - 1, 3), 6).tolist() == [
        0.5946463195432324, 0.2083384621646236, 0.8506631816641314,
        0.7572507720675244, 0.9672851937411241, 0.22563149011285533,
    ]  # fmt: skip
    assert philox_key("a", "bc") != philox_key("ab", "c")


@given(
    st.integers(0, 2**128 - 1),
    st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1)), min_size=1, max_size=3),
    st.integers(1, 9),
)
def test_rows_of_streams_are_single_streams(key: int, streams: list[tuple[int, int]], count: int) -> None:
    rows = philox_rows(key, streams, count)
    assert np.array_equal(rows, [philox_uniforms(key, stream, count) for stream in streams])


@given(st.integers(0, 2**128 - 1), st.integers(0, 200))
def test_an_order_is_a_permutation(key: int, count: int) -> None:
    assert sorted(philox_order(key, (1, 2), count).tolist()) == list(range(count))


def test_a_city_that_extends_others_is_made_of_them() -> None:
    """Its ancestors' ids are those that they had; another prefix of it is no ancestor."""
    matrix = CITY.costs(np.arange(31))
    for costs in (None, matrix):
        parts = [None if costs is None else costs[: k + 1, : k + 1] for k in (10, 20, 30)]
        first = City(CITY.xy[:11], parts[0])
        second = City(CITY.xy[:21], parts[1], extends=(10,))
        third = City(CITY.xy[:31], parts[2], extends=(10, 20))
        assert third.ancestors == (first.city_id, second.city_id)
        assert third.ancestor(1).city_id == second.city_id
        assert len({third.city_id, City(CITY.xy[:31], parts[2]).city_id, *third.ancestors}) == 4
        assert not third.accepts(City(CITY.xy[:12], None if costs is None else costs[:12, :12]).city_id)


@settings(max_examples=20)
@given(st.integers(0, 2**32), st.sampled_from([1.0, 0.02, 20_000.0]))
def test_cost_is_the_same_to_the_last_bit_in_any_order(seed: int, side: float) -> None:
    """Neither the order of routes nor their direction changes a cost, be it of a solution or of a sample."""
    rng = np.random.default_rng(seed)
    city = City.framed(City.uniform(400, seed=1).xy * side)
    ids = rng.permutation(np.arange(1, 401))
    routes = np.split(ids, np.sort(rng.choice(np.arange(1, 400), 40, replace=False)))
    costs = set()
    for _ in range(5):
        turned = [routes[k][:: rng.choice([-1, 1])] for k in rng.permutation(len(routes))]
        path = Solution.of(turned).path
        padded = np.concatenate([path, np.zeros(7, int)])[None].astype(np.int32)
        costs |= {cost(city, Solution.of(turned)), float(Decoded.of(city, padded).costs[0])}
    assert len(costs) == 1


@given(st.integers(0, 2**32), st.booleans())
def test_a_sample_costs_what_its_solution_costs_however_it_is_padded(seed: int, with_matrix: bool) -> None:
    """A matrix may be asymmetric and have costs on its diagonal: padding at the depot costs nothing."""
    rng = np.random.default_rng(seed)
    city = City.framed(rng.random((9, 2)), rng.random((9, 9)) + 0.1 if with_matrix else None)
    solutions = [
        Solution.of(np.split(rng.permutation(np.arange(1, 9)), np.unique(rng.integers(1, 8, size=k))))
        for k in (0, 1, 3)
    ]
    paths = np.zeros((3, 20), np.int32)
    for row, solution in zip(paths, solutions, strict=True):
        row[: len(solution.path)] = solution.path
    assert Decoded.of(city, paths).costs.tolist() == [cost(city, solution) for solution in solutions]
