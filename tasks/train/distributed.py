"""Process group of the ranks: joining and leaving."""

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

# Timeout of collectives. The other ranks wait while rank 0 saves, which may include
# outages of the store (`storage.store.s3.WORKING`), and while slower machines copy their labels.
COLLECTIVE_SECONDS = 1800


@contextmanager
def distributed(cores: int) -> Iterator[torch.device]:
    """Initialize torch.distributed and yield this rank's device; ranks of this machine share ``cores``.

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
    # DeepSpeed would compile its shared-memory communication at the first start, which takes minutes.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    initialized_here = not torch.distributed.is_initialized()
    backend, timeout = "nccl" if device.type == "cuda" else "gloo", timedelta(seconds=COLLECTIVE_SECONDS)
    deepspeed.init_distributed(backend, verbose=False, timeout=timeout)
    yield device
    # No `finally`: after an error the other ranks may never reach the barrier, which would block.
    torch.distributed.barrier()  # a rank that leaves early breaks the collectives of the others
    if initialized_here:
        torch.distributed.destroy_process_group()
