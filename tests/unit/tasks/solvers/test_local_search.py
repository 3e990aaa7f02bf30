"""Polished samples: never worse, feasible, each what it is without the others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from mcvrp.model.decoding import Nucleus
from mcvrp.model.instances import InstanceStream, Rules
from mcvrp.model.problem import City, Solution, cost, infeasibility
from mcvrp.tasks.benchmark.methods import all_methods
from mcvrp.tasks.benchmark.spec import BenchmarkSpec
from mcvrp.tasks.solve.spec import SolveSpec
from mcvrp.tasks.solvers import local_search
from mcvrp.tasks.solvers.local_search import Polished, RandomStarts, polish, random_solution
from tests.support.answers import require_answer
from tests.support.networks import small_solver

CITY = City.uniform(30, seed=1)
CITIES = [CITY, City(CITY.xy, np.random.default_rng(0).uniform(0.1, 1.0, (31, 31)))]  # lines, one-way costs
RULES = Rules(capacity=(12, 25))
each_instance = given(city=st.sampled_from(CITIES), n=st.integers(1, 25), seed=st.integers(0, 1000))


@settings(max_examples=25, deadline=None)
@each_instance
def test_no_solution_gets_worse_and_each_is_on_its_own(city: City, n: int, seed: int) -> None:
    instance = InstanceStream(city, 1, "test", RULES)(n, seed)
    samples = [random_solution(instance, seed + k) for k in range(3)]
    polished = polish(city, instance, [*samples, samples[0]])
    for sample, better in zip(samples, polished, strict=False):
        assert infeasibility(instance, better) is None
        assert cost(city, better) <= cost(city, sample) + 1e-9
        assert polish(city, instance, [sample]) == [better]
    assert polished[3] == polished[0]
    assert polish(city, instance, samples[::-1]) == polished[2::-1]


def test_equal_samples_are_searched_once_and_improve_a_lot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many samples of a model may be few solutions."""
    instance = InstanceStream(CITY, 1, "test", RULES)(25, 0)
    sample = random_solution(instance, 0)
    searched: list[Solution] = []
    visits = local_search.visits  # type: ignore[attr-defined]
    monkeypatch.setattr(
        local_search,
        "visits",
        lambda *arguments: searched.append(arguments[2]) or visits(*arguments),  # type: ignore[func-returns-value]
    )
    better, *_ = polish(CITY, instance, [sample, Solution(sample.routes[::-1]), sample])
    assert len(searched) == 1
    assert cost(CITY, better) < 0.75 * cost(CITY, sample)


def test_answers_are_no_worse_than_the_samples_and_have_prefixes() -> None:
    stream = InstanceStream(CITY, 1, "test", RULES)
    instances = [stream(n, 0) for n in (20, 7, 21)]
    polished = Polished(small_solver(CITY))
    raw = list(small_solver(CITY).solve(CITY, instances, samples=4, seed=1))
    four, two = (list(polished.solve(CITY, instances, samples=k, seed=1)) for k in (4, 2))
    for instance, before, after, fewer in zip(instances, raw, four, two, strict=True):
        require_answer(CITY, instance, after, samples=4)
        assert (after.costs <= before.costs + 1e-9).all()
        assert fewer.costs.tolist() == after.costs[:2].tolist()
    assert list(polished.solve(CITY, [], samples=4, seed=1)) == []


def test_only_polished_samples_are_sampled_hotter() -> None:
    """In the row of the benchmark, and on a day."""
    row = all_methods()["fm-ls"].decoder
    assert row
    for hotter, expected in ((None, 0.7), (1.5, 1.5)):
        spec = BenchmarkSpec(sizes=(20,), p=0.8, temperature=0.7, polish_temperature=hotter)
        assert spec.decoding.temperature == 0.7
        polished = row(spec, small_solver(CITY))
        assert isinstance(polished, Polished)
        assert polished.solver.strategy == Nucleus(0.8, temperature=expected)
        day = SolveSpec(temperature=0.7, polish_temperature=hotter)
        assert day.decoding.temperature == expected


@settings(max_examples=25, deadline=None)
@each_instance
def test_random_starts_are_random_solutions_polished(city: City, n: int, seed: int) -> None:
    """Run k is the random solution with the k-th seed: feasible, another one per seed, polished alone."""
    instance = InstanceStream(city, 1, "test", RULES)(n, seed)
    starts = [random_solution(instance, seed + k) for k in range(4)]
    assert all(infeasibility(instance, start) is None for start in starts)
    assert n < 6 or len(set(starts)) == 4
    (answer,) = RandomStarts().solve(city, [instance], samples=4, seed=seed)
    require_answer(city, instance, answer, samples=4)
    expected = [cost(city, solution) for solution in polish(city, instance, starts)]
    assert answer.costs.tolist() == expected
    assert answer.elapsed is not None
    assert (np.diff(answer.elapsed, prepend=0) > 0).all()
    (fewer,) = RandomStarts().solve(city, [instance], samples=2, seed=seed + 1)
    assert fewer.costs.tolist() == expected[1:3]


def test_routes_of_random_solutions_are_full_or_end_by_chance() -> None:
    """With room for all in one vehicle a route ends after each tenth customer on average."""
    instance = InstanceStream(CITY, 1, "test", Rules(capacity=(1000, 1000)))(25, 0)
    routes = [len(random_solution(instance, seed).routes) for seed in range(1000)]
    # 25 chances of 0.1, the first of which opens no second route
    assert np.mean(routes) == pytest.approx(1 + 24 * 0.1, abs=4 * (24 * 0.09 / 1000) ** 0.5)
