"""The attention model against its equations in NumPy; feasibility of every rollout."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from mcvrp.model.attention_model import AttentionModel, rollout
from mcvrp.model.instances import InstanceStream, Rules
from mcvrp.model.problem import City, Solution, infeasibility
from tests.support.attention import orders_of, slow_probabilities, small_model

CITY = City.uniform(40, seed=5)
STREAM = InstanceStream(CITY, 1, "test", Rules(capacity=(9, 25)))
MODEL = small_model()


def uniforms(instances: int, samples: int, n: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).random((instances, samples, 2 * n)))


def test_the_network_has_the_papers_size() -> None:
    """Three layers of 128 with 8 heads: about 0.69 M parameters."""
    assert sum(p.numel() for p in AttentionModel().parameters()) == pytest.approx(0.69e6, rel=0.02)


def test_likelihoods_are_those_of_the_equations() -> None:
    """All steps at once give what one step, one head and one node after the other give in float64."""
    instances = [STREAM(6, i) for i in range(3)]
    orders = orders_of(CITY, instances)
    with torch.no_grad():
        nodes = MODEL.encode(orders)
        paths = rollout(MODEL, nodes, orders, uniforms(3, 2, 6))
        likelihood = MODEL.log_likelihood(nodes, orders, paths)
    for row, instance in enumerate(instances):
        for sample in range(2):
            path = paths[row, sample].tolist()
            steps = slow_probabilities(MODEL, CITY, instance, path)
            expected = sum(np.log(p[node]) for p, node in zip(steps, path[1:], strict=True))
            assert float(likelihood[row, sample]) == pytest.approx(expected, abs=1e-4)


def test_greedy_takes_the_most_probable_node_of_the_equations() -> None:
    instances = [STREAM(7, i) for i in range(4)]
    orders = orders_of(CITY, instances)
    paths = rollout(MODEL, MODEL.encode(orders), orders)[:, 0]
    for instance, path in zip(instances, paths.tolist(), strict=True):
        steps = slow_probabilities(MODEL, CITY, instance, path)
        assert [int(p.argmax()) for p in steps] == path[1:]


def test_draws_have_the_probabilities_of_the_equations() -> None:
    """The second customers of many samples of one instance, counted."""
    instance = STREAM(3, 0)
    orders = orders_of(CITY, [instance])
    paths = rollout(MODEL, MODEL.encode(orders), orders, uniforms(1, 20_000, 3))[0]
    counts = np.bincount(paths[:, 1], minlength=4) / len(paths)
    np.testing.assert_allclose(counts, slow_probabilities(MODEL, CITY, instance, [0, 1])[0], atol=0.015)


@settings(max_examples=40)
@given(
    n=st.integers(1, 12),
    demand=st.integers(1, 9),
    room=st.integers(0, 20),
    first=st.integers(0, 10**6),
    draw=st.sampled_from(["greedy", "random", 0.0, 1 - 2**-53]),
)
def test_every_rollout_is_feasible(n: int, demand: int, room: int, first: int, draw: str | float) -> None:
    """Any sizes, demands, capacities and random numbers: each customer once, no vehicle too full."""
    rules = Rules(demand=(1, demand), capacity=(demand, demand + room))
    stream = InstanceStream(CITY, 2, "test", rules)
    instances = [stream(n, first + k) for k in range(3)]
    orders = orders_of(CITY, instances)
    drawn = None if draw == "greedy" else uniforms(3, 2, n, first)
    if isinstance(draw, float):  # the smallest and the largest random number
        drawn = torch.full((3, 2, 2 * n), draw, dtype=torch.float64)
    for instance, paths in zip(instances, rollout(MODEL, MODEL.encode(orders), orders, drawn), strict=True):
        for path in paths.tolist():
            assert path[0] == path[-1] == 0
            solution = Solution.from_path(instance.nodes[path])
            assert infeasibility(instance, solution) is None
