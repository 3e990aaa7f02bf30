"""Small networks of random weights, and the comparison of their samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from mcvrp.model.decoding import Decoded, Nucleus
from mcvrp.model.network import FmMcvrp, NetworkConfig
from mcvrp.model.problem import City
from mcvrp.tasks.solvers.fm_mcvrp import FmMcvrpSolver


def small_network(city: City, decoder_layers: int = 1) -> FmMcvrp:
    """Return a network for ``city``, equal for equal arguments, in evaluation mode."""
    torch.manual_seed(0)
    config = NetworkConfig(
        city.classes, dim=16, heads=2, encoder_layers=1, decoder_layers=decoder_layers, ff=16
    )
    return FmMcvrp(config).eval()


def small_solver(city: City, rotations: int = 3, p: float = 0.9) -> FmMcvrpSolver:
    return FmMcvrpSolver(small_network(city), Nucleus(p), rotations, version="m 1")


def require_equal(some: Sequence[Decoded], others: Sequence[Decoded]) -> None:
    for one, other in zip(some, others, strict=True):
        np.testing.assert_array_equal(one.paths, other.paths)
        np.testing.assert_array_equal(one.costs, other.costs)
