"""Ranks among each other: joining and leaving the group, and agreeing when a job has to end."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import deepspeed
import deepspeed.ops
import torch
import torch.distributed

# How long a rank waits for the others. While rank 0 saves they do, and a silent store may take
# `storage.store.retry.SILENCE` of it; machines get their labels one sooner, one later.
COLLECTIVE_SECONDS = 1800


@contextmanager
def distributed(cores: int) -> Iterator[torch.device]:
    """Yield this rank's device, with torch.distributed up; ranks of this machine share ``cores``.

    Expects RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT in the
    environment, as `ranks.launch` and Ray Train set them.
    """
    local = int(os.environ["LOCAL_RANK"])
    if torch.cuda.is_available():
        device = torch.device("cuda", local)
        torch.cuda.set_device(device)
    else:
        device = torch.device("cpu")
        torch.set_num_threads(max(1, cores // int(os.environ["LOCAL_WORLD_SIZE"])))
    logging.getLogger("DeepSpeed").setLevel(logging.WARNING)
    # Shared-memory communication would be compiled at the first start, which takes minutes.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    ours = not torch.distributed.is_initialized()
    deepspeed.init_distributed(
        "nccl" if device.type == "cuda" else "gloo",
        verbose=False,
        timeout=timedelta(seconds=COLLECTIVE_SECONDS),
    )
    yield device
    # Not when it fails: then the others may never come, and taking the group down would wait for them.
    torch.distributed.barrier()  # a rank that leaves while others still talk takes them down
    if ours:
        torch.distributed.destroy_process_group()


class JobClock:
    """Ends a job while there is still time for its last checkpoint.

    What the job is about to do is taken to last as long as it has lasted at worst so far: the
    steps up to the next look at the clock, and a checkpoint.

    Parameters
    ----------
    ends_at
        When the job has to be over, in seconds since 1970 by rank 0's clock; None lets it run.
    device
        What the ranks agree on is sent from here.
    """

    def __init__(self, ends_at: float | None, device: torch.device) -> None:
        self._ends_at, self._device = ends_at, device
        self._lap = self._save = 0.0  # seconds at worst
        self._since = time.time()

    def over(self) -> bool:
        """Return whether to stop now; every rank has to ask, and all get the same answer."""
        if self._ends_at is None:
            return False
        now = time.time()
        self._lap, self._since = max(self._lap, now - self._since), now
        answer = torch.tensor(int(now + self._lap + self._save > self._ends_at), device=self._device)
        torch.distributed.broadcast(answer, src=0)
        return bool(answer.item())

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Take the time of what is done in this context as that of a checkpoint."""
        began = time.time()
        yield
        took = time.time() - began
        self._save = max(self._save, took)
        self._since += took
