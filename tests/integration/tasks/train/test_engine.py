"""Steps of the engine with real DeepSpeed, in ranks of their own, against a plain AdamW loop."""

from __future__ import annotations

import shutil
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from mcvrp.model.features import Batch, CityTable
from mcvrp.model.instances import InstanceStream
from mcvrp.model.loss import losses
from mcvrp.model.network import FmMcvrp, NetworkConfig
from mcvrp.model.problem import City
from mcvrp.tasks.solvers.local_search import random_solution
from tests.support.batches import batch_of
from tests.support.forked_ranks import together

if TYPE_CHECKING:
    from mcvrp.tasks.train.engine import EngineOptions

CITY = City.uniform(60, seed=3)
SMALL = NetworkConfig(61, dim=16, heads=2, encoder_layers=1, decoder_layers=1, ff=32, dropout=0.0)
STEPS = 3
LR, DECAY, CLIP = 0.01, 0.1, 0.5


def whole_batch(count: int = 12) -> Batch:
    stream = InstanceStream(CITY, 1, "train")
    instances = [stream(20 + i % 4, i) for i in range(count)]
    return batch_of([(instance, random_solution(instance, k)) for k, instance in enumerate(instances)])


def take(batch: Batch, rows: slice) -> Batch:
    parts = {f.name: getattr(batch, f.name) for f in fields(batch)}
    return replace(batch, **{name: t[rows] for name, t in parts.items() if isinstance(t, torch.Tensor)})  # type: ignore[arg-type]


def network(config: NetworkConfig) -> FmMcvrp:
    torch.manual_seed(5)
    return FmMcvrp(config)


def options(zero: int) -> EngineOptions:
    from mcvrp.tasks.train.engine import EngineOptions

    return EngineOptions(train_decoder=True, zero=zero, bf16=False, weight_decay=DECAY, clip=CLIP)


def steps_of_every_stage(rank: int, ranks: int, folder: Path) -> None:
    """Save the result of `STEPS` steps of each ZeRO stage, with 1, 2, 3, ... micro-batches per rank."""
    from mcvrp.tasks.train.engine import Engine, Totals

    batch = whole_batch()
    problem, solution = int(batch.lengths.sum()), int((batch.path_lengths - 1).sum())
    share = len(batch.ids) // ranks
    for zero in (0, 1, 2):
        engine = Engine(network(SMALL), CityTable.of(CITY), options(zero))
        sums, norms = [], []
        for step in range(STEPS):
            cuts = np.linspace(rank * share, (rank + 1) * share, step + 2).astype(int).tolist()
            micro = [take(batch, slice(a, b)) for a, b in pairwise(cuts)]
            total = engine.step(micro, Totals(problem, solution), LR)
            both = torch.cat([total["problem"], total["solution"]])
            torch.distributed.all_reduce(both)
            sums.append(both.numpy())
            norms.append(engine.gradient_norm())
        moments = engine.moments()
        if rank == 0:
            result = engine.weights(), moments.exp_avg, np.array(sums), np.array(norms)
            torch.save(result, folder / f"{zero}.pt")


@pytest.mark.parametrize("ranks", [1, 2])
def test_any_number_of_micro_batches_takes_the_step_of_the_whole_batch(tmp_path: Path, ranks: int) -> None:
    """Any ZeRO stage, ranks and micro-batches: the sums, norms and weights of a plain AdamW loop."""
    batch, table, net = whole_batch(), CityTable.of(CITY), network(SMALL)
    adam = torch.optim.AdamW(net.parameters(), lr=LR, weight_decay=DECAY)
    sums, norms = [], []
    for _ in range(STEPS):
        both = losses(net, table, batch)
        streams = both.problem, both.solution
        adam.zero_grad()
        torch.stack([stream.loss_sum / stream.tokens for stream in streams]).sum().backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(net.parameters(), CLIP)))
        adam.step()
        sums.append([float(s) for stream in streams for s in (stream.loss_sum.detach(), stream.correct)])
    together(steps_of_every_stage, ranks, tmp_path)
    for zero in (0, 1, 2):
        weights, exp_avg, actual_sums, actual_norms = torch.load(tmp_path / f"{zero}.pt", weights_only=False)
        np.testing.assert_allclose(actual_sums, sums, rtol=1e-4)
        np.testing.assert_allclose(actual_norms, norms, rtol=1e-4)
        for name, parameter in net.named_parameters():
            expected, actual = parameter.detach().numpy(), weights[name]
            if name.endswith("key_value.bias"):  # softmax ignores the bias of keys: its gradient is rounding
                half = len(expected) // 2
                expected, actual = expected[half:], actual[half:]
            np.testing.assert_allclose(actual, expected, atol=2e-4, err_msg=f"{name}, ZeRO {zero}")
            moment = adam.state[parameter]["exp_avg"].numpy()
            np.testing.assert_allclose(exp_avg[name], moment, atol=1e-4, err_msg=f"{name}, ZeRO {zero}")


def compiled_and_eager_steps(rank: int, ranks: int, folder: Path) -> None:
    """Save the sums of two steps with compiled blocks, and without."""
    from mcvrp.tasks.train.engine import Engine, Totals

    batch, found = whole_batch(), []
    parts = [take(batch, slice(0, 7)), take(batch, slice(7, 12))]
    for compiled in (False, True):
        engine = Engine(network(SMALL), CityTable.of(CITY), replace(options(0), compile=compiled))
        steps = [engine.step(parts, Totals(300, 330), LR) for _ in range(2)]
        found.append(torch.stack([torch.cat([*step.values()]) for step in steps]))
        assert engine.weights().keys() == dict(network(SMALL).named_parameters()).keys()
    torch.save(found, folder / "sums.pt")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
def test_compiled_blocks_take_the_same_steps(tmp_path: Path) -> None:
    together(compiled_and_eager_steps, 1, tmp_path)
    eager, compiled = torch.load(tmp_path / "sums.pt")
    torch.testing.assert_close(compiled, eager, rtol=1e-4, atol=0)
