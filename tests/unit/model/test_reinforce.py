"""REINFORCE against enumeration, and the t-test that replaces the baseline."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from mcvrp.model.attention_model import AttentionConfig, rollout
from mcvrp.model.features import CityTable, TravelCosts
from mcvrp.model.instances import InstanceStream, Rules
from mcvrp.model.problem import City, Solution, cost
from mcvrp.model.reinforce import better, greedy_costs, surrogate
from tests.support.attention import orders_of, small_model
from tests.support.optimum import every_path

CITY = City.uniform(30, seed=4)
STREAM = InstanceStream(CITY, 1, "train", Rules(capacity=(9, 15)))
NAN, INF = math.nan, math.inf


def test_costs_are_those_of_the_problem() -> None:
    """Straight lines in the frame of the model, and a matrix: both as `model.problem` sums them."""
    model = small_model()
    rng = np.random.default_rng(0)
    scaled = City(CITY.xy * 500 + 7, origin=(7.0, 7.0), scale=500.0, unit="m")
    for city in (CITY, scaled, City(CITY.xy, matrix=rng.random((31, 31)) * 90)):
        instances = [InstanceStream(city, 1, "train", STREAM.rules)(8, i) for i in range(4)]
        orders, costs = orders_of(city, instances), TravelCosts.of(city, CityTable.of(city))
        uniforms = torch.from_numpy(rng.random((4, 3, 16)))
        paths = rollout(model, model.encode(orders), orders, uniforms)
        prices = costs.unit * costs(orders.ids, paths)
        for row, instance in enumerate(instances):
            solutions = [Solution.from_path(instance.nodes[path]) for path in paths[row].tolist()]
            expected = [cost(city, solution) for solution in solutions]
            np.testing.assert_allclose(prices[row], expected, rtol=1e-5)


@pytest.mark.parametrize("n", [2, 3])
def test_the_gradient_is_that_of_the_expected_cost(n: int) -> None:
    """Averaged over draws, it is the finite difference of sum p(path) cost(path), whatever the baseline."""
    model = small_model(config=AttentionConfig(dim=8, heads=2, layers=1, ff=8)).double()
    instance = STREAM(n, 0)
    single = orders_of(CITY, [instance])
    orders = type(single)(single.ids, single.xy.double(), single.demands.double(), single.capacity.double())
    costs = TravelCosts.of(CITY, CityTable.of(CITY))
    paths = torch.tensor([every_path(instance.demands.tolist(), instance.capacity)])
    prices = costs(orders.ids, paths)

    def expectation() -> torch.Tensor:
        probability = model.log_likelihood(model.encode(orders), orders, paths).exp()
        assert probability.sum().item() == pytest.approx(1, abs=1e-9)  # no path is left out
        return (probability * prices).sum()

    weight = model.step.weight
    slopes = []
    with torch.no_grad():
        for column in (0, 3, 8):  # the last one is the room's
            old = weight[1, column].item()
            values = []
            for shift in (1e-5, -1e-5):
                weight[1, column] = old + shift
                values.append(float(expectation()))
            weight[1, column] = old
            slopes.append((values[0] - values[1]) / 2e-5)

    draws = 100_000
    uniforms = torch.from_numpy(np.random.default_rng(1).random((1, draws, 2 * n)))
    loss, drawn = surrogate(model, costs, orders, uniforms, prices.mean().reshape(1))
    torch.autograd.backward(loss)
    assert weight.grad is not None
    scale = max(map(abs, slopes))
    np.testing.assert_allclose(weight.grad[1, [0, 3, 8]], slopes, atol=0.05 * scale)
    assert float(drawn.mean()) == pytest.approx(float(expectation()), abs=0.01)


def test_greedy_costs_leave_the_network_as_it_is() -> None:
    """In training mode before and after, running statistics untouched, no gradient."""
    model = small_model().train()
    before = {name: t.clone() for name, t in model.state_dict().items()}
    orders = orders_of(CITY, [STREAM(9, i) for i in range(4)])
    assert not greedy_costs(model, TravelCosts.of(CITY, CityTable.of(CITY)), orders).requires_grad
    assert model.training
    assert all(torch.equal(t, before[name]) for name, t in model.state_dict().items())


def test_the_baseline_is_replaced_when_the_difference_is_significant() -> None:
    """Cheaper beyond chance: yes. Cheaper by chance, equal, dearer: no."""
    rng = np.random.default_rng(0)
    base = 5 + rng.normal(size=1000)
    assert better(base - 0.1 + 0.5 * rng.normal(size=1000), base)
    assert not better(base + 0.1, base)
    assert not better(base, base)
    noise = rng.normal(size=1000)
    assert not better(base + noise - noise.mean() - 0.01, base)
    assert better(base + noise - noise.mean() - 0.01, base, alpha=0.45)
