"""The attention model against its equations in NumPy; feasibility of every rollout."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from mcvrp.model.attention_model import AttentionModel, rollout
from mcvrp.model.instances import InstanceStream, Rules
from mcvrp.model.problem import City, Instance, Solution, infeasibility
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
        found = MODEL.log_likelihood(nodes, orders, paths)
    for row, instance in enumerate(instances):
        for sample in range(2):
            path = paths[row, sample].tolist()
            steps = slow_probabilities(MODEL, CITY, instance, path)
            expected = sum(np.log(p[node]) for p, node in zip(steps, path[1:], strict=True))
            assert float(found[row, sample]) == pytest.approx(expected, abs=1e-4)


def test_greedy_takes_the_most_probable_node_of_the_equations() -> None:
    """At every step, by the slow probabilities."""
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


@settings(deadline=None, max_examples=40)
@given(
    n=st.integers(1, 12),
    demand=st.integers(1, 9),
    room=st.integers(0, 20),
    first=st.integers(0, 10**6),
    samples=st.integers(1, 4),
    greedy=st.booleans(),
)
def test_every_rollout_is_feasible(
    n: int, demand: int, room: int, first: int, samples: int, greedy: bool
) -> None:
    """Any sizes, demands and capacities: each customer once, no vehicle too full."""
    rules = Rules(demand=(1, demand), capacity=(demand, demand + room))
    stream = InstanceStream(CITY, 2, "test", rules)
    instances = [stream(n, first + k) for k in range(3)]
    orders = orders_of(CITY, instances)
    drawn = None if greedy else uniforms(3, samples, n, first)
    for instance, paths in zip(instances, rollout(MODEL, MODEL.encode(orders), orders, drawn), strict=True):
        for path in paths.tolist():
            assert path[0] == path[-1] == 0
            solution = Solution.from_path(instance.nodes[path])
            assert infeasibility(instance, solution) is None


@pytest.mark.parametrize("u", [0.0, 1 - 2**-53])
def test_a_draw_at_either_end_is_allowed(u: float) -> None:
    """The smallest and the largest random number never draw a forbidden node."""
    instances = [STREAM(12, i) for i in range(5)]
    orders = orders_of(CITY, instances)
    drawn = torch.full((5, 1, 24), u, dtype=torch.float64)
    for instance, paths in zip(instances, rollout(MODEL, MODEL.encode(orders), orders, drawn), strict=True):
        assert infeasibility(instance, Solution.from_path(instance.nodes[paths[0].tolist()])) is None


def test_the_order_of_the_customers_does_not_matter() -> None:
    """Shuffled rows are routed alike: the network sees a set."""
    instances = [STREAM(15, i) for i in range(5)]
    orders = orders_of(CITY, instances)
    order = torch.cat([torch.zeros(1, dtype=torch.long), 1 + torch.randperm(15)])
    shuffled = type(orders)(
        orders.ids[:, order], orders.xy[:, order], orders.demands[:, order], orders.capacity
    )
    straight = rollout(MODEL, MODEL.encode(orders), orders)[:, 0]
    turned = rollout(MODEL, MODEL.encode(shuffled), shuffled)[:, 0]
    assert torch.equal(order[turned], straight)


def test_an_instance_is_routed_alike_in_any_company() -> None:
    """In evaluation mode, nothing of a batch leaks from one instance into another."""
    instances = [STREAM(10, i) for i in range(6)]
    alone: list[Instance] = instances[2:3]
    drawn = uniforms(6, 3, 10)
    together, one = orders_of(CITY, instances), orders_of(CITY, alone)
    paths = rollout(MODEL, MODEL.encode(together), together, drawn)[2]
    single = rollout(MODEL, MODEL.encode(one), one, drawn[2:3])[0]
    length = single.shape[1]
    assert torch.equal(paths[:, :length], single)
    assert not paths[:, length:].any()
