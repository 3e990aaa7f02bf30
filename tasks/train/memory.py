"""Out-of-memory errors of micro-batches, and the tokens by which these are limited."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from mcvrp.model.features import Batch
from mcvrp.model.paths import Group

MicroBatch = Batch | Sequence[Group]  # labels, or instances to sample paths for

# Messages of CUDA, cuBLAS, PyTorch's allocator, C++ and oneDNN; only the first has a type of its own.
_ALLOCATORS = (
    "out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "can't allocate memory",
    "bad_alloc",
    "could not create a primitive",
    "could not create a memory",
)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether ``error`` means that GPU or main memory ran out."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _ALLOCATORS)


def tokens(part: MicroBatch) -> int:
    """Return problem and solution tokens of a micro-batch with padding, as counted by train.micro_tokens."""
    if isinstance(part, Batch):
        return part.ids.numel() + part.path[:, 1:].numel()
    return policy_tokens(len(part), _largest(part), len(part[0].uniforms))


def policy_tokens(instances: int, largest: int, samples: int) -> int:
    """Return the tokens of instances of ``largest`` customers with paths of the maximum length."""
    return instances * (largest + 1 + samples * 2 * largest)


def too_large(part: MicroBatch) -> str:
    """Return the error message for a micro-batch that did not fit into memory."""
    largest = part.ids.shape[1] - 1 if isinstance(part, Batch) else _largest(part)
    rows, size = len(part.ids) if isinstance(part, Batch) else len(part), tokens(part)
    what = f"{rows} {'samples' if isinstance(part, Batch) else 'instances with their paths'}"
    fewer = f"set train.micro_tokens below {size}" if rows > 1 else "train a smaller network or smaller sizes"
    return f"out of memory: {what} of up to {largest} customers are {size:,} tokens: {fewer}"


def _largest(groups: Sequence[Group]) -> int:
    return max(group.instance.n for group in groups)
