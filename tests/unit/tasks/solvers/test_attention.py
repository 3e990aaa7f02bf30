"""The attention model behind the solver protocol: proved answers, prefixes, the right city and sizes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mcvrp.model.attention_model import rollout
from mcvrp.model.canonical_form import canonical
from mcvrp.model.errors import McvrpError
from mcvrp.model.instances import InstanceStream, Rules
from mcvrp.model.problem import City, Instance, cost, infeasibility
from mcvrp.tasks.solvers import attention
from mcvrp.tasks.solvers.attention import AttentionSolver
from mcvrp.tasks.solvers.solver import Solver
from tests.support.attention import orders_of, small_model

CITY = City.uniform(30, seed=1)
STREAM = InstanceStream(CITY, 1, "test", Rules(capacity=(12, 25)))
INSTANCES = [STREAM(n, i) for i, n in enumerate((8, 5, 8, 5, 5))]
MODELS = {5: small_model(5), 8: small_model(8)}
SOLVER = AttentionSolver(MODELS, "demo", CITY.city_id)


def test_answers_are_feasible_canonical_and_as_good_as_their_best_sample() -> None:
    """One answer per instance, in order, for any sizes."""
    solver: Solver = SOLVER
    answers = list(solver.solve(CITY, INSTANCES, samples=6, seed=1))
    for instance, answer in zip(INSTANCES, answers, strict=True):
        assert answer.solution is not None
        assert infeasibility(instance, answer.solution) is None
        assert canonical(CITY, answer.solution) == answer.solution
        assert answer.costs.shape == (6,)
        assert cost(CITY, answer.solution) == pytest.approx(answer.costs.min(), abs=1e-9)
        assert answer.seconds > 0


def test_samples_are_prefixes_and_the_same_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """s = 1 and s = 4 are the first of 9, alone, in other company or in pieces."""

    def costs(samples: int, instances: list[Instance] = INSTANCES) -> list[np.ndarray]:
        return [answer.costs for answer in SOLVER.solve(CITY, instances, samples=samples, seed=3)]

    whole = costs(9)
    for samples in (1, 4):
        assert all(np.array_equal(a[:samples], b) for a, b in zip(whole, costs(samples), strict=True))
    assert np.array_equal(whole[2], costs(9, INSTANCES[2:3])[0])
    for tokens in (12, 40, 90):  # one path at once, some of an instance, some instances
        monkeypatch.setattr(attention, "_CPU_TOKENS", tokens)
        assert all(np.array_equal(a, b) for a, b in zip(whole, costs(9), strict=True))
    other = [answer.costs for answer in SOLVER.solve(CITY, INSTANCES, samples=9, seed=4)]
    assert not any(np.array_equal(a, b) for a, b in zip(whole, other, strict=True))


def test_greedy_is_one_answer() -> None:
    """The greedy rollout of the network; more samples are rejected."""
    solver = AttentionSolver(MODELS, greedy=True)
    (answer,) = solver.solve(CITY, INSTANCES[:1], samples=1, seed=1)
    orders = orders_of(CITY, INSTANCES[:1])
    with torch.no_grad():
        path = rollout(MODELS[8], MODELS[8].encode(orders), orders)[0, 0].numpy()
    assert answer.costs[0] == pytest.approx(CITY.legs(INSTANCES[0].nodes[path]).sum())
    with pytest.raises(McvrpError, match="exactly one sample, not 2"):
        next(solver.solve(CITY, INSTANCES, samples=2, seed=1))


def test_another_city_and_a_size_without_a_model_are_refused() -> None:
    """In a sentence that names what was found and what was expected."""
    other = City.uniform(30, seed=2)
    with pytest.raises(McvrpError, match=rf"route city {CITY.city_id}, not city {other.city_id}"):
        next(SOLVER.solve(other, INSTANCES, samples=1, seed=1))
    foreign = [InstanceStream(other, 1, "test", STREAM.rules)(5, 0)]
    with pytest.raises(McvrpError, match=rf"belongs to city {other.city_id}, not to city {CITY.city_id}"):
        next(SOLVER.solve(CITY, foreign, samples=1, seed=1))
    with pytest.raises(McvrpError, match="no attention model for 6 customers, only for 5, 8"):
        next(SOLVER.solve(CITY, [STREAM(6, 0)], samples=1, seed=1))
    assert list(SOLVER.solve(CITY, [], samples=1, seed=1)) == []


def test_names_in_tables_say_how_it_decoded() -> None:
    """The label is the paper's, the configuration names the models."""
    assert SOLVER.label == "AM (VS)"
    assert SOLVER.configuration == "models demo, one a size, sampled as it is"
    assert "CPU core" in SOLVER.device
