"""The feasibility mask against a slow reference, one token at a time."""

from __future__ import annotations

import torch

from mcvrp.model.feasibility import feasible_along
from mcvrp.model.problem import Instance, Solution
from tests.support.batches import batch_of

Pairs = list[tuple[Instance, Solution]]


def test_mask_allows_exactly_the_feasible_next_nodes(pairs: Pairs) -> None:
    """A node may follow if it is in the instance, unserved, light enough, and not depot after depot."""
    batch = batch_of(pairs)
    allowed = feasible_along(batch.demands, batch.capacity, batch.lengths, batch.path)
    for row, (instance, solution) in enumerate(pairs):
        demand = dict(zip(instance.ids.tolist(), instance.demands.tolist(), strict=True))
        served: set[int] = set()
        load = 0
        for step, node in enumerate(solution.path[:-1].tolist()):
            load = 0 if node == 0 else load + demand[node]
            served.add(node)
            expected = {
                k
                for k, j in enumerate(instance.nodes.tolist())
                if (j == 0 and node != 0)
                or (j != 0 and j not in served and demand[j] + load <= instance.capacity)
            }
            assert set(torch.nonzero(allowed[row, step])[:, 0].tolist()) == expected


def test_a_path_never_leaves_its_own_mask(pairs: Pairs) -> None:
    """Every token of a feasible solution is allowed by the mask of the token before it."""
    batch = batch_of(pairs)
    allowed = feasible_along(batch.demands, batch.capacity, batch.lengths, batch.path)
    for row, (_, solution) in enumerate(pairs):
        steps = torch.arange(len(solution.path) - 1)
        assert allowed[row, steps, batch.path[row, steps + 1]].all()
