"""Networks behind the solver protocol: proved answers, prefixes, equal samples in any number of processes."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from mcvrp.model.decoding import Beam, Greedy, Nucleus, Strategy
from mcvrp.model.errors import McvrpError
from mcvrp.model.instances import InstanceStream, Rules
from mcvrp.model.network import FmMcvrp
from mcvrp.model.problem import City, Instance
from mcvrp.tasks.solvers import attention
from mcvrp.tasks.solvers.attention import AttentionSolver
from mcvrp.tasks.solvers.devices import decoding_map
from mcvrp.tasks.solvers.fm_mcvrp import FmMcvrpSolver
from mcvrp.tasks.solvers.local_search import Polished
from mcvrp.tasks.solvers.solver import Solver
from mcvrp.tasks.support.pool import Pool
from tests.support.answers import require_answer
from tests.support.attention import small_model
from tests.support.networks import require_equal, small_network

CITY = City.uniform(60, seed=1)
STREAM = InstanceStream(CITY, 1, "test", Rules(capacity=(12, 25)))
INSTANCES = [STREAM(3 + 7 * k % 22, k) for k in range(400)]
MODELS = {n: small_model(n) for n in (5, 8, 12)}
FEW = [STREAM(n, i) for i, n in enumerate((8, 5, 8, 12, 5))]
FM = FmMcvrpSolver(small_network(CITY), Nucleus(), rotations=3)
ATTENTION = AttentionSolver(MODELS, "demo")
DEFAULT_THREADS = 2  # of a process that decodes alone


@pytest.fixture(scope="module")
def network() -> FmMcvrp:
    return small_network(CITY, decoder_layers=2)


@pytest.fixture(scope="module")
def pools(network: FmMcvrp) -> Iterator[dict[int, Pool]]:
    """Pools of one and of two processes, all started."""
    made = {count: Pool(count, worth=0) for count in (1, 2)}
    for count, pool in made.items():
        solver = FmMcvrpSolver(network, Greedy(), pool=pool)
        while pool.processes < count:
            solver.decoded(CITY, INSTANCES[:8], 1, 0)
            time.sleep(0.1)  # the children import torch
    yield made
    for pool in made.values():
        pool.close()


@pytest.fixture
def _two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(DEFAULT_THREADS)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("solver", [FM, ATTENTION], ids=["fm", "attention"])
def test_answers_are_feasible_canonical_and_as_good_as_their_best_sample(solver: Solver) -> None:
    for instance, answer in zip(FEW, solver.solve(CITY, FEW, samples=5, seed=1), strict=True):
        require_answer(CITY, instance, answer, samples=5)
    assert list(solver.solve(CITY, [], samples=1, seed=1)) == []


def test_samples_of_attention_models_are_prefixes(monkeypatch: pytest.MonkeyPatch) -> None:
    """s = 1 and s = 4 are the first of 9, alone, in other company or in pieces."""

    def costs(samples: int, instances: list[Instance] = FEW, seed: int = 3) -> list[np.ndarray]:
        return [answer.costs for answer in ATTENTION.solve(CITY, instances, samples=samples, seed=seed)]

    whole = costs(9)
    for samples in (1, 4):
        assert all(np.array_equal(a[:samples], b) for a, b in zip(whole, costs(samples), strict=True))
    assert np.array_equal(whole[2], costs(9, FEW[2:3])[0])
    for tokens in (12, 40, 90):  # one path at once, some of an instance, some instances
        monkeypatch.setattr(attention, "_CPU_TOKENS", tokens)
        assert all(np.array_equal(a, b) for a, b in zip(whole, costs(9), strict=True))
    assert not any(np.array_equal(a, b) for a, b in zip(whole, costs(9, seed=4), strict=True))


def test_another_city_is_refused() -> None:
    other = City.uniform(30, seed=2)
    foreign = [InstanceStream(other, 1, "test", STREAM.rules)(5, 0)]
    for city, instances, message in (
        (other, FEW, rf"belongs to city {CITY.city_id}, not to city {other.city_id}"),
        (CITY, foreign, rf"belongs to city {other.city_id}, not to city {CITY.city_id}"),
    ):
        with pytest.raises(McvrpError, match=message):
            next(ATTENTION.solve(city, instances, samples=1, seed=1))


@pytest.mark.parametrize("rotations", [1, 3])
@pytest.mark.parametrize(
    ("strategy", "samples"),
    [
        (Greedy(), 1),
        (Nucleus(1.0), 5),
        (Nucleus(0.8, 1.5), 3),
        (Nucleus(), 300),  # more samples of an instance than a batch has paths
        (Beam(4), 4),
    ],
    ids=str,
)
def test_samples_do_not_depend_on_the_number_of_processes(
    network: FmMcvrp, pools: dict[int, Pool], strategy: Strategy, samples: int, rotations: int
) -> None:
    rotations = rotations if strategy.width == 1 else min(rotations, 2)
    instances = INSTANCES[: max(2, 200 // samples)]
    alone = FmMcvrpSolver(network, strategy, rotations).decoded(CITY, instances, samples, 3)
    for pool in pools.values():
        solver = FmMcvrpSolver(network, strategy, rotations, pool=pool)
        require_equal(alone, solver.decoded(CITY, instances, samples, 3))


@pytest.mark.usefixtures("_two_threads")
def test_samples_do_not_depend_on_batches_and_threads(network: FmMcvrp, pools: dict[int, Pool]) -> None:
    """Scores differ in their last bits with the batch and the threads, the paths drawn from them do not."""
    together = FmMcvrpSolver(network, Nucleus(), 3, max_batch=1024).decoded(CITY, INSTANCES[::18], 8, 3)
    solver = FmMcvrpSolver(network, Nucleus(), 3, pool=pools[2])
    require_equal(together, solver.decoded(CITY, INSTANCES[::18], 8, 3))


def test_attention_models_do_not_depend_on_the_number_of_processes(pools: dict[int, Pool]) -> None:
    """There is one model per size."""
    sizes = [STREAM(n, i) for i in range(40) for n in (5, 8, 12)]
    alone = AttentionSolver(MODELS).decoded(CITY, sizes, 24, 3)
    for pool in pools.values():
        require_equal(alone, AttentionSolver(MODELS, pool=pool).decoded(CITY, sizes, 24, 3))


@pytest.mark.usefixtures("_two_threads")
def test_a_pool_decodes_on_one_thread_and_a_large_network_on_those_there_are(
    network: FmMcvrp, pools: dict[int, Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network that is too large to copy is not decoded by children."""
    assert [FmMcvrpSolver(network, Greedy(), pool=pool).cores for pool in pools.values()] == [1, 2]
    with decoding_map(network, pools[2]) as mapped:
        assert torch.get_num_threads() == 1
        assert mapped == pools[2].map
    assert torch.get_num_threads() == DEFAULT_THREADS
    monkeypatch.setattr(Pool, "map", None)
    monkeypatch.setattr("mcvrp.tasks.solvers.devices._MOST_PARAMETERS", 10)
    solver = FmMcvrpSolver(network, Greedy(), pool=pools[2])
    solver.decoded(CITY, INSTANCES[:20], 1, 0)
    assert solver.cores == DEFAULT_THREADS


def test_times_are_those_of_one_core(pools: dict[int, Pool], monkeypatch: pytest.MonkeyPatch) -> None:
    """The same work on two cores counts twice: searches have one each."""
    clock = SimpleNamespace(perf_counter=itertools.count().__next__)  # a second between two looks
    monkeypatch.setattr("mcvrp.tasks.solvers.solver.time", clock)
    monkeypatch.setattr("mcvrp.tasks.solvers.local_search.time", clock)
    fm, alike = replace(FM, pool=pools[2]), [STREAM(8, i) for i in range(2)]
    for solver, seconds in ((fm, 1.0), (AttentionSolver(MODELS, pool=pools[2]), 1.0), (Polished(fm), 2.0)):
        assert solver.device == "1 CPU core"
        answers = solver.solve(CITY, alike, samples=1, seed=1)
        assert [answer.seconds for answer in answers] == [seconds] * 2
