"""Decoding in several processes: equal samples to the last bit, and the number of processes in tables."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from mcvrp.model.decoding import Beam, Greedy, Nucleus, Sampling, Strategy
from mcvrp.model.instances import InstanceStream, Rules
from mcvrp.model.network import FmMcvrp
from mcvrp.model.problem import City
from mcvrp.tasks.solvers.attention import AttentionSolver
from mcvrp.tasks.solvers.devices import decoding_map
from mcvrp.tasks.solvers.fm_mcvrp import FmMcvrpSolver
from mcvrp.tasks.solvers.reconstruction import Reconstructed
from mcvrp.tasks.support.pool import Pool
from tests.support.attention import small_model
from tests.support.networks import require_equal, small_network

CITY = City.uniform(60, seed=1)
STREAM = InstanceStream(CITY, 1, "test", Rules(capacity=(12, 25)))
SIZES = [3 + 7 * k % 22 for k in range(400)]
INSTANCES = [STREAM(n, i) for i, n in enumerate(SIZES)]
DEFAULT_THREADS = 2  # of a process that decodes alone


@pytest.fixture(scope="module")
def network() -> FmMcvrp:
    return small_network(CITY, decoder_layers=2)


@pytest.fixture(scope="module")
def pools(network: FmMcvrp) -> Iterator[dict[int, Pool]]:
    """Pools of one, two and three processes, all started."""
    made = {count: Pool(count, worth=0) for count in (1, 2, 3)}
    for count, pool in made.items():
        solver = FmMcvrpSolver(network, Greedy(), pool=pool)
        while pool.processes < count:
            solver.decoded(CITY, INSTANCES, 1, 0)
    yield made
    for pool in made.values():
        pool.close()


@pytest.mark.parametrize("rotations", [1, 3])
@pytest.mark.parametrize(
    ("strategy", "samples"),
    [
        (Greedy(), 1),
        (Sampling(), 5),
        (Sampling(0.8, 4, 1.5), 3),
        (Nucleus(), 300),  # more samples of an instance than a batch has paths
        (Beam(4), 4),
        (Beam(4, dominance=False), 3),
    ],
    ids=str,
)
def test_samples_do_not_depend_on_the_number_of_processes(
    network: FmMcvrp, pools: dict[int, Pool], strategy: Strategy, samples: int, rotations: int
) -> None:
    """Paths and costs of mixed sizes are equal with no, one, two and three worker processes."""
    rotations = rotations if strategy.width == 1 else min(rotations, 2)
    instances = INSTANCES[: 600 // samples]
    alone = FmMcvrpSolver(network, strategy, rotations).decoded(CITY, instances, samples, 3)
    for pool in pools.values():
        solver = FmMcvrpSolver(network, strategy, rotations, pool=pool)
        require_equal(alone, solver.decoded(CITY, instances, samples, 3))


def test_batches_and_threads_as_they_were_have_the_same_samples(
    network: FmMcvrp, pools: dict[int, Pool]
) -> None:
    """Scores differ in their last bits with the batch and the threads, the paths drawn from them do not."""
    solver = FmMcvrpSolver(network, Nucleus(), 3, pool=pools[2])
    before = torch.get_num_threads()
    torch.set_num_threads(DEFAULT_THREADS)
    try:
        together = FmMcvrpSolver(network, Nucleus(), 3, max_batch=1024).decoded(CITY, INSTANCES[::9], 8, 3)
    finally:
        torch.set_num_threads(before)
    require_equal(together, solver.decoded(CITY, INSTANCES[::9], 8, 3))


def test_re_construction_does_not_depend_on_the_number_of_processes(
    network: FmMcvrp, pools: dict[int, Pool]
) -> None:
    """Its rounds decode other instances of the same city: equal answers again."""
    answers = []
    for pool in (None, *pools.values()):
        solver = Reconstructed(FmMcvrpSolver(network, Nucleus(), 3, pool=pool), rounds=2, part_samples=8)
        answers.append(list(solver.solve(CITY, INSTANCES[:40], samples=8, seed=1)))
    for other in answers[1:]:
        assert [answer.solution for answer in other] == [answer.solution for answer in answers[0]]
        assert [answer.costs.tolist() for answer in other] == [a.costs.tolist() for a in answers[0]]


@pytest.mark.parametrize("greedy", [False, True])
def test_attention_models_do_not_depend_on_the_number_of_processes(
    pools: dict[int, Pool], greedy: bool
) -> None:
    """One network per size, which the processes receive in turn."""
    instances = [STREAM(n, i) for i in range(40) for n in (8, 12, 20)]
    models = {n: small_model(n) for n in (8, 12, 20)}
    samples = 1 if greedy else 24
    alone = AttentionSolver(models, greedy=greedy).decoded(CITY, instances, samples, 3)
    for pool in pools.values():
        require_equal(
            alone, AttentionSolver(models, greedy=greedy, pool=pool).decoded(CITY, instances, samples, 3)
        )


def test_tables_say_how_many_processes_worked(network: FmMcvrp, pools: dict[int, Pool]) -> None:
    """As many cores as processes; a search's start is decoded on one, whatever there is."""
    assert [FmMcvrpSolver(network, Greedy(), pool=pool).device for pool in pools.values()] == [
        "1 CPU core",
        "2 CPU cores",
        "3 CPU cores",
    ]
    before = pools[2].children_seconds
    starts = list(
        FmMcvrpSolver(network, Nucleus(), pool=pools[2]).starts(CITY, INSTANCES[:5], samples=300, seed=1)
    )
    assert len(starts) == 5
    assert pools[2].children_seconds == before


def test_a_pool_decodes_on_one_thread_and_a_large_network_on_those_there_are(
    network: FmMcvrp, pools: dict[int, Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads are as before after; a network that is too large to copy is not given to children."""
    before = torch.get_num_threads()
    torch.set_num_threads(DEFAULT_THREADS)
    try:
        with decoding_map(network, pools[2]) as mapped:
            assert torch.get_num_threads() == 1
            assert mapped == pools[2].map
        assert torch.get_num_threads() == DEFAULT_THREADS
        monkeypatch.setattr("mcvrp.tasks.solvers.devices._MOST_PARAMETERS", 10)
        worked = pools[2].children_seconds
        solver = FmMcvrpSolver(network, Greedy(), pool=pools[2])
        solver.decoded(CITY, INSTANCES[:150], 1, 0)
        assert pools[2].children_seconds == worked
        assert solver.device == f"{DEFAULT_THREADS} CPU cores"
    finally:
        torch.set_num_threads(before)
