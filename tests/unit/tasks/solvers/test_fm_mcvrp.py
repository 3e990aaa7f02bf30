"""FM-MCVRP behind the solver protocol: proved answers, prefixes, and the encoder's accuracy."""

from __future__ import annotations

import pytest
import torch

from mcvrp.model.canonical_form import canonical
from mcvrp.model.decoding import Beam, Greedy, Nucleus
from mcvrp.model.features import CityTable, problem_features
from mcvrp.model.instances import InstanceStream, Rules
from mcvrp.model.problem import City, Solution, cost, infeasibility
from mcvrp.tasks.solvers import fm_mcvrp
from mcvrp.tasks.solvers.fm_mcvrp import FmMcvrpSolver, problem_accuracy
from mcvrp.tasks.solvers.solver import Solver
from tests.support.networks import small_network

CITY = City.uniform(30, seed=1)
STREAM = InstanceStream(CITY, 1, "test", Rules(capacity=(12, 25)))
INSTANCES = [STREAM(n, i) for i, n in enumerate((20, 20, 7, 21))]


def test_answers_are_feasible_canonical_and_as_good_as_their_best_sample() -> None:
    """One answer per instance, in order, for any sizes."""
    solver: Solver = FmMcvrpSolver(small_network(CITY), Nucleus(), rotations=3)
    answers = list(solver.solve(CITY, INSTANCES, samples=5, seed=1))
    for instance, answer in zip(INSTANCES, answers, strict=True):
        assert answer.solution is not None
        assert infeasibility(instance, answer.solution) is None
        assert canonical(CITY, answer.solution) == answer.solution
        assert answer.costs.shape == (5,)
        assert cost(CITY, answer.solution) == pytest.approx(answer.costs.min(), abs=1e-9)
        assert answer.seconds > 0


def test_starts_are_the_samples_of_each_instance_and_what_they_took(monkeypatch: pytest.MonkeyPatch) -> None:
    """One instance at a time on one thread, the clock around it alone; threads are as before after."""
    threads: list[int] = []
    decode = fm_mcvrp.decode  # type: ignore[attr-defined]
    monkeypatch.setattr(
        fm_mcvrp,
        "decode",
        lambda *a, **k: threads.append(torch.get_num_threads()) or decode(*a, **k),  # type: ignore[func-returns-value]
    )
    ticks = iter(range(100))
    monkeypatch.setattr(fm_mcvrp.time, "thread_time", lambda: float(2 ** next(ticks)))  # type: ignore[attr-defined]
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        solver = FmMcvrpSolver(small_network(CITY), Nucleus(), rotations=3)
        starts = list(solver.starts(CITY, INSTANCES, samples=4, seed=1))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert set(threads) == {1}
    assert [start.seconds for start in starts] == [1.0, 4.0, 16.0, 64.0]
    answers = solver.solve(CITY, INSTANCES, samples=4, seed=1)
    for start, instance, answer in zip(starts, INSTANCES, answers, strict=True):
        solutions = [Solution(routes) for routes in start.routes]
        assert all(infeasibility(instance, solution) is None for solution in solutions)
        assert [cost(CITY, solution) for solution in solutions] == pytest.approx(answer.costs.tolist())


def test_names_in_tables_say_how_it_decoded() -> None:
    """The label carries the decoder, the configuration p and the rotations."""
    assert FmMcvrpSolver(small_network(CITY), Greedy()).label == "FM-MCVRP (GS)"
    sampled = FmMcvrpSolver(small_network(CITY), Nucleus(0.8), rotations=10, version="m 1")
    assert sampled.label == "FM-MCVRP (NS)"
    assert "p = 0.8" in sampled.configuration
    assert "10 rotations" in sampled.configuration
    assert "model m 1" in sampled.configuration
    assert FmMcvrpSolver(small_network(CITY), Beam(2)).label == "FM-MCVRP (BS)"


def test_accuracy_is_the_share_of_tokens_that_a_slow_count_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Instance by instance and token by token, also when scores come in pieces."""
    model, table = small_network(CITY), CityTable.of(CITY)
    right = 0
    for instance in INSTANCES:
        ids = torch.from_numpy(instance.nodes)[None]
        demands = torch.tensor([[0, *instance.demands.tolist()]], dtype=torch.float32)
        features = problem_features(table, ids, demands, torch.tensor([float(instance.capacity)]))
        named = model.output(model.encode(features))[0].argmax(-1).tolist()
        right += sum(a == b for a, b in zip(named, instance.nodes.tolist(), strict=True))
    expected = right / sum(instance.n + 1 for instance in INSTANCES)
    assert problem_accuracy(model, CITY, INSTANCES) == pytest.approx(expected)
    monkeypatch.setattr(fm_mcvrp, "_SCORES", 1)
    assert problem_accuracy(model, CITY, INSTANCES) == pytest.approx(expected)
