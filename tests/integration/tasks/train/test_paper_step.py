"""Training step of the paper's network at full size on the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from mcvrp.model.features import CityTable
from mcvrp.model.network import FmMcvrp, NetworkConfig
from mcvrp.model.problem import City
from tests.support.batches import sweep_batch
from tests.support.forked_ranks import together


def two_steps(rank: int, ranks: int, folder: Path) -> None:
    """Save the losses before the first step and before the second, on the same eight instances."""
    from mcvrp.tasks.train.engine import Engine, EngineOptions, Totals

    city = City.uniform(10_000, 1)
    torch.manual_seed(0)
    network = FmMcvrp(NetworkConfig())
    options = EngineOptions(train_decoder=True, zero=0, bf16=False, weight_decay=0.01, clip=1.0)
    engine = Engine(network, CityTable.of(city), options)
    batch = sweep_batch(city, [20] * 8, rotated=True)
    problem, solution = int(batch.lengths.sum()), int((batch.path_lengths - 1).sum())
    step_losses = []
    for _ in range(2):
        torch.manual_seed(1)  # the same dropout, so that losses differ by the step alone
        sums = engine.step([batch], Totals(problem, solution), 1e-5)
        step_losses.append((float(sums["problem"][0]) / problem, float(sums["solution"][0]) / solution))
    torch.save((step_losses, sum(p.numel() for p in network.parameters())), folder / "losses.pt")


@pytest.mark.slow
def test_the_papers_network_learns_from_one_step(tmp_path: Path) -> None:
    """206 M parameters, batch 8, n = 20: after one step of the optimizer both losses are lower."""
    together(two_steps, 1, tmp_path)
    ((problem, solution), (problem_then, solution_then)), parameters = torch.load(tmp_path / "losses.pt")
    assert parameters == pytest.approx(206e6, rel=0.01)
    assert problem_then < problem
    assert solution_then < solution
