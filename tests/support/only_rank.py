"""A group of one rank, which is the process of the tests."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
import torch

from mcvrp.tasks.support.processes import free_port


def group_environment(rank: int, ranks: int, port: int) -> dict[str, str]:
    """Return the variables with which torch.distributed makes a process ``rank`` of ``ranks``."""
    own, all_ranks = str(rank), str(ranks)
    group = {"RANK": own, "LOCAL_RANK": own, "WORLD_SIZE": all_ranks, "LOCAL_WORLD_SIZE": all_ranks}
    return group | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}


@pytest.fixture(scope="session")
def only_rank() -> Iterator[tuple[dict[str, str], torch.device]]:
    """Make this process the only rank of a group, once: DeepSpeed keeps the first group that it meets."""
    from mcvrp.tasks.train.trainer import distributed

    environment = group_environment(0, 1, free_port())
    with contextlib.ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            device = stack.enter_context(distributed(cores=1))
        yield environment, device
