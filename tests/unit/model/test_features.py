"""Features of tokens against a slow reference, one token at a time; order of routes under rotation."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from mcvrp.model.canonical_form import canonical
from mcvrp.model.features import CityTable, problem_features, rolled_path, solution_features
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


def test_costs_to_landmarks_follow_the_nine_features(city: City, pairs: Pairs) -> None:
    """Whatever the rotation, in both streams; all else is as without landmarks."""
    batch, plain, table = batch_of(pairs, 1.0), CityTable.of(city), CityTable.of(city, landmarks=3)
    expected = torch.tensor(city.landmark_costs(3), dtype=torch.float32)
    features = {}
    for name, each in (("plain", plain), ("landmarks", table)):
        problem = problem_features(each, batch.ids, batch.demands, batch.capacity, batch.angle)
        features[name] = problem, solution_features(problem, batch.demands, batch.capacity, batch.path)
    for before, after, positions in zip(
        features["plain"], features["landmarks"], (batch.ids, batch.ids.gather(1, batch.path)), strict=True
    ):
        assert torch.equal(after[..., :9], before)
        assert torch.equal(after[..., 9:], expected[positions])


def test_what_a_node_looks_like_stays_when_its_city_is_extended() -> None:
    """Features of old nodes are the same to the bit; a new node may have a kappa above 1."""
    parent = City(np.array([[0.2, 0.2], [1.0, 1.0], [0.0, 0.4], [0.5, 0.0]]))
    child = City(np.vstack([parent.xy, [[1.2, 1.2], [0.3, -0.1]]]), extends=(3,))
    before, after = CityTable.of(parent, landmarks=2), CityTable.of(child, landmarks=2)
    assert torch.equal(after.delta[:4], before.delta)
    assert torch.equal(after.kappa[:4], before.kappa)
    assert torch.equal(after.landmarks[:4], before.landmarks)
    assert float(before.kappa.max()) == 1
    assert float(after.kappa[4]) == pytest.approx(1.25)
    grandchild = City(np.vstack([child.xy, [[0.9, 0.1]]]), extends=(3, 5))
    assert torch.equal(CityTable.of(grandchild).kappa[:6], after.kappa)


def turned(city: City, angle: float) -> City:
    """Return ``city`` turned about its depot, in a frame that is large enough."""
    delta = city.xy - city.xy[0]
    cos, sin = math.cos(angle), math.sin(angle)
    return City(delta @ np.array([[cos, sin], [-sin, cos]]), origin=(-1.0, -1.0), scale=2.0)


@pytest.mark.parametrize("angle", [0.0, 0.7, 2.0, 3.5, 6.2])
def test_rolled_routes_are_canonical_in_the_rotated_city(city: City, pairs: Pairs, angle: float) -> None:
    """Canonical routes, rolled, are the canonical routes of the city rotated by the same angle."""
    labels = [(instance, canonical(city, solution)) for instance, solution in pairs]
    batch = batch_of(labels, angle)
    assert batch.angle is not None
    rolled = rolled_path(CityTable.of(city), batch.ids, batch.path, batch.path_lengths, batch.angle)
    seen = turned(city, float(batch.angle[0]))
    expected = batch_of([(instance, canonical(seen, solution)) for instance, solution in labels])
    assert torch.equal(rolled, expected.path)
