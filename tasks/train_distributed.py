"""Joining the other ranks: device, threads and DeepSpeed's communication for one rank."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import deepspeed
import deepspeed.ops
import torch
import torch.distributed

# How long a rank waits for the others. While rank 0 saves they do, and a silent store may take
# `tasks.patience.SILENCE` of it; machines get their labels one sooner, one later.
COLLECTIVE_SECONDS = 1800


@contextmanager
def distributed(cores: int) -> Iterator[torch.device]:
    """Yield this rank's device, with torch.distributed up; ranks of this machine share ``cores``.

    Expects RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT in the
    environment, as torch.distributed.run and Ray Train set them.
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
