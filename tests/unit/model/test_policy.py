"""Policy gradient: what is drawn and what it costs, and the gradient against enumeration."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from mcvrp.model.features import Batch, CityTable, TravelCosts, problem_features
from mcvrp.model.instances import InstanceStream, Rules
from mcvrp.model.loss import IGNORED, next_nodes
from mcvrp.model.network import FmMcvrp, NetworkConfig
from mcvrp.model.partial_paths import Group
from mcvrp.model.policy import Sampled, draw, policy_loss
from mcvrp.model.problem import City, Instance, Solution, cost, infeasibility
from tests.support.optimum import every_path

CITY = City.uniform(30, seed=4)
TABLE = CityTable.of(CITY)
COSTS = TravelCosts.of(CITY, TABLE)
STREAM = InstanceStream(CITY, 1, "train", Rules(capacity=(9, 15)))
RNG = np.random.default_rng(7)


def network(pointer: bool = True, dropout: float = 0.0) -> FmMcvrp:
    torch.manual_seed(3)
    model = FmMcvrp(
        NetworkConfig(31, dim=16, heads=2, encoder_layers=1, decoder_layers=2, ff=32, dropout=dropout,
                      pointer=pointer)
    )  # fmt: skip
    if model.pointer is not None:
        torch.nn.init.normal_(model.pointer.weight, std=0.1)
    return model


def group(instance: Instance, samples: int, angle: float = 0.0) -> Group:
    return Group(instance, angle, RNG.random((samples, 2 * instance.n)))


@pytest.mark.parametrize("pointer", [False, True])
def test_paths_are_feasible_and_cost_what_the_problem_says(pointer: bool) -> None:
    """In mixed sizes and rotations; lengths end at the last depot; the network is left in its mode."""
    model = network(pointer, dropout=0.5).train()
    instances = [STREAM(n, 0) for n in (3, 9, 9, 1)]
    sampled = draw(model, TABLE, COSTS, [group(each, 5, angle) for angle, each in enumerate(instances)])
    assert model.training
    paths = sampled.batch.path.view(4, 5, -1)
    lengths = sampled.batch.path_lengths.view(4, 5)
    for k, instance in enumerate(instances):
        for path, length, price in zip(paths[k], lengths[k], sampled.costs[k], strict=True):
            solution = Solution.from_path(instance.nodes[path])
            assert infeasibility(instance, solution) is None
            assert len(solution.path) == length
            assert float(price) * COSTS.unit == pytest.approx(cost(CITY, solution), rel=1e-5)


def test_an_instances_paths_are_scored_as_if_each_were_alone() -> None:
    """Sharing encoding and keys changes no score, whatever meets in the batch."""
    model = network().eval()
    sampled = draw(model, TABLE, COSTS, [group(STREAM(n, 1), 4, 0.3) for n in (9, 5)])
    likelihood = loss_of(model, sampled, torch.ones_like(sampled.costs)).detach()
    alone = 0.0
    batch = sampled.batch
    for k, row in itertools.product(range(2), range(4)):
        one = replace(
            batch,
            ids=batch.ids[k : k + 1], demands=batch.demands[k : k + 1], capacity=batch.capacity[k : k + 1],
            lengths=batch.lengths[k : k + 1], angle=None if batch.angle is None else batch.angle[k : k + 1],
            path=batch.path[4 * k + row][None], path_lengths=batch.path_lengths[4 * k + row][None],
        )  # fmt: skip
        alone += float(loss_of(model, Sampled(one, torch.ones(1, 1)), torch.ones(1, 1)).detach())
    assert float(likelihood) == pytest.approx(alone, rel=1e-5)


def loss_of(model: FmMcvrp, sampled: Sampled, weights: torch.Tensor) -> torch.Tensor:
    """Return the log-likelihood of all paths, each times its weight."""

    class Weighted(Sampled):
        def advantages(self, risk: float | None = None) -> torch.Tensor:
            return weights

    return policy_loss(model, TABLE, Weighted(sampled.batch, sampled.costs))


@pytest.mark.parametrize("risk", [None, 0.2, 0.02])
def test_the_gradient_is_that_of_the_mean_cost_or_of_its_risk(risk: float | None) -> None:
    """E[cost], or -risk log E[exp(-cost / risk)], of costs as shares of their mean, over all paths."""
    model = network().eval()
    instance = STREAM(3, 0)
    paths = torch.tensor(every_path(instance.demands.tolist(), instance.capacity))
    drawn = draw(model, TABLE, COSTS, [group(instance, 30_000)])
    last = torch.where(paths > 0, torch.arange(paths.shape[1]), 0).amax(1)
    whole = replace(drawn.batch, path=paths, path_lengths=last + 2)
    prices = COSTS(drawn.batch.ids, paths[None])[0]

    p = probabilities(model, whole)
    mean = (p * prices).sum()
    shares = prices / mean.detach()
    valued = (p * shares).sum() if risk is None else -risk * (p * (-shares / risk).exp()).sum().log()
    parameters = [p for p in model.parameters() if p.requires_grad]
    exact = torch.autograd.grad(valued, parameters, allow_unused=True)

    assert float(drawn.costs.mean()) == pytest.approx(float(mean.detach()), rel=0.01)
    loss = policy_loss(model, TABLE, drawn, risk) / 30_000
    estimate = torch.autograd.grad(loss, parameters, allow_unused=True)
    scale = max(float(g.abs().max()) for g in exact if g is not None)
    for expected, gradient in zip(exact, estimate, strict=True):
        if expected is not None and gradient is not None:
            torch.testing.assert_close(gradient, expected, atol=0.05 * scale, rtol=0)


@pytest.mark.parametrize("samples", [2, 3, 4])
def test_a_path_counts_in_its_own_baseline(samples: int) -> None:
    """So the expected gradient is (S - 1) / S of that of the mean cost: all draws of a choice of three."""
    costs, logits = torch.tensor([1.0, 1.1, 1.3]), torch.tensor([0.2, -0.1, 0.3], requires_grad=True)
    p = logits.softmax(0)
    (exact,) = torch.autograd.grad((p * costs).sum(), logits, retain_graph=True)
    expected = torch.zeros(3)
    for chosen in map(torch.tensor, itertools.product(range(3), repeat=samples)):
        of_draw = costs[chosen]
        above = Sampled(None, of_draw[None]).advantages()[0] * of_draw.mean()  # type: ignore[arg-type]
        (gradient,) = torch.autograd.grad((above * p[chosen].log()).mean(), logits, retain_graph=True)
        expected += p[chosen].prod().detach() * gradient
    torch.testing.assert_close(expected, (samples - 1) / samples * exact)


def probabilities(model: FmMcvrp, whole: Batch) -> torch.Tensor:
    """Return the probability of each path of an instance."""
    problem = problem_features(TABLE, whole.ids, whole.demands, whole.capacity, whole.angle)
    scores, target = next_nodes(model, whole, problem, model.encode(problem), whole.path, whole.path_lengths)
    log_p = scores.log_softmax(-1).gather(-1, target.clamp_min(0)[..., None])[..., 0]
    probability = log_p.masked_fill(target == IGNORED, 0).sum(1).exp()
    assert float(probability.detach().sum()) == pytest.approx(1, abs=1e-4)  # no path is left out
    return probability


def test_an_instance_whose_paths_cost_the_same_teaches_nothing() -> None:
    """One customer, one path: no advantage, no gradient; orders at the depot cost nothing, and are no NaN."""
    model = network().eval()
    assert draw(model, TABLE, COSTS, [group(STREAM(1, 0), 8)]).advantages(0.1).abs().max() < 1e-6
    at_depot = City(np.full((31, 2), 0.5))
    table = CityTable.of(at_depot)
    instance = InstanceStream(at_depot, 1, "train", Rules(capacity=(9, 15)))(5, 0)
    sampled = draw(model, table, TravelCosts.of(at_depot, table), [group(instance, 4)])
    assert torch.isfinite(sampled.advantages(0.1)).all()
