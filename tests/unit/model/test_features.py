"""Features and mask against a slow reference that reads DESIGN's words one token at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from mcvrp.model.feasibility import feasible_along
from mcvrp.model.features import CityTable, problem_features, solution_features
from mcvrp.model.problem import City, Instance, Solution
from tests.support.batches import batch_of

Pairs = list[tuple[Instance, Solution]]


def reference_token(
    city: City, instance: Instance, node: int, load: int, served: int, angle: float, problem: bool
) -> list[float]:
    """The nine features (x, y, d, t, kappa, gamma, omega, c, a) of one token, in float64."""
    depot = city.unit_xy[0]
    dx, dy = city.unit_xy[node] - depot
    distance = math.hypot(dx, dy)
    theta = math.atan2(dy, dx) + angle
    demand = dict(zip(instance.ids.tolist(), instance.demands.tolist(), strict=True)).get(node, 0)
    largest = max(math.hypot(*(xy - depot)) for xy in city.unit_xy)
    return [
        depot[0] + distance * math.cos(theta),
        depot[1] + distance * math.sin(theta),
        demand / instance.capacity,
        float(node == 0),
        distance / largest,
        math.cos(theta) if node else 0.0,
        math.sin(theta) if node else 0.0,
        0.0 if problem or node == 0 else load / instance.capacity,
        0.0 if problem else served / int(instance.demands.sum()),
    ]


@pytest.mark.parametrize("angle", [None, 0.0, 1.0, 5.5])
def test_every_feature_equals_its_definition(city: City, pairs: Pairs, angle: float | None) -> None:
    """Problem and solution tokens carry exactly the nine numbers that the paper names."""
    batch = batch_of(pairs, angle)
    table = CityTable.of(city)
    problem = problem_features(table, batch.ids, batch.demands, batch.capacity, batch.angle)
    solution = solution_features(problem, batch.demands, batch.capacity, batch.path)
    for row, (instance, answer) in enumerate(pairs):
        turn = angle or 0.0
        for position, node in enumerate(instance.nodes.tolist()):
            expected = reference_token(city, instance, node, 0, 0, turn, problem=True)
            np.testing.assert_allclose(problem[row, position], expected, atol=2e-6)
        demand = dict(zip(instance.ids.tolist(), instance.demands.tolist(), strict=True))
        load = served = 0
        for step, node in enumerate(answer.path.tolist()):
            load = 0 if node == 0 else load + demand[node]
            served += demand.get(node, 0)
            expected = reference_token(city, instance, node, load, served, turn, problem=False)
            np.testing.assert_allclose(solution[row, step], expected, atol=2e-6)


def test_mask_allows_exactly_the_feasible_next_nodes(pairs: Pairs) -> None:
    """A node may follow if it is in the instance, unserved, light enough, and not depot after depot."""
    batch = batch_of(pairs)
    allowed = feasible_along(batch.demands, batch.capacity, batch.lengths, batch.path)
    for row, (instance, solution) in enumerate(pairs):
        demand = dict(zip(instance.ids.tolist(), instance.demands.tolist(), strict=True))
        served: set[int] = set()
        load = 0
        for step, node in enumerate(solution.path[:-1].tolist()):
            load = 0 if node == 0 else load + demand[node]
            served.add(node)
            expected = {
                k
                for k, j in enumerate(instance.nodes.tolist())
                if (j == 0 and node != 0)
                or (j != 0 and j not in served and demand[j] + load <= instance.capacity)
            }
            assert set(torch.nonzero(allowed[row, step])[:, 0].tolist()) == expected


def test_a_path_never_leaves_its_own_mask(pairs: Pairs) -> None:
    """Every token of a feasible solution is allowed by the mask of the token before it."""
    batch = batch_of(pairs)
    allowed = feasible_along(batch.demands, batch.capacity, batch.lengths, batch.path)
    for row, (_, solution) in enumerate(pairs):
        steps = torch.arange(len(solution.path) - 1)
        assert allowed[row, steps, batch.path[row, steps + 1]].all()


def test_a_full_turn_changes_nothing(city: City, pairs: Pairs) -> None:
    """Rotation by 2 pi is the identity; by any angle it keeps demand, type and distance."""
    table = CityTable.of(city)

    def features(angle: float | None) -> torch.Tensor:
        batch = batch_of(pairs, angle)
        return problem_features(table, batch.ids, batch.demands, batch.capacity, batch.angle)

    torch.testing.assert_close(features(2 * math.pi), features(None), atol=3e-6, rtol=0)
    torch.testing.assert_close(features(1.3)[..., 2:5], features(None)[..., 2:5])


def test_what_a_node_looks_like_stays_when_its_city_is_extended() -> None:
    """Coordinates and kappa of old nodes are the same to the bit; a new node may have a kappa above 1."""
    parent = City(np.array([[0.2, 0.2], [1.0, 1.0], [0.0, 0.4], [0.5, 0.0]]))
    child = City(np.vstack([parent.xy, [[1.2, 1.2], [0.3, -0.1]]]), extends=(3,))
    before, after = CityTable.of(parent), CityTable.of(child)
    assert torch.equal(after.delta[:4], before.delta)
    assert torch.equal(after.kappa[:4], before.kappa)
    assert float(before.kappa.max()) == 1
    assert float(after.kappa[4]) == pytest.approx(1.25)
    grandchild = City(np.vstack([child.xy, [[0.9, 0.1]]]), extends=(3, 5))
    assert torch.equal(CityTable.of(grandchild).kappa[:6], after.kappa)
