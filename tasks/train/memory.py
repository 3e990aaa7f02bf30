"""Out-of-memory errors: their detection, and the largest micro-batch that would have fitted."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence

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


def largest_that_fits(part: MicroBatch, attempt: Callable[[MicroBatch], object]) -> MicroBatch | None:
    """Return the largest of half, a quarter, ... of ``part`` for which ``attempt`` has memory, if any."""
    rows = _rows(part) // 2
    while rows:
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        fewer = part.first(rows) if isinstance(part, Batch) else part[:rows]
        try:
            attempt(fewer)
            return fewer
        except Exception as error:
            if not is_out_of_memory(error):
                raise
        rows //= 2
    return None


def advice(part: MicroBatch, fits: MicroBatch | None) -> str:
    """Return the error message: the micro-batch that did not fit, and the one that does."""
    largest, one, paths = _largest(part), "sample", ""
    remedy = f"train a smaller network, or on sizes below {largest}"
    if not isinstance(part, Batch):
        one, paths = "instance", f", {len(part[0].uniforms)} paths each,"
        remedy = "lower policy.samples of the phase"
    failed = (
        f"out of memory: a micro-batch of {_rows(part)} {one}s of up to {largest} customers{paths} "
        f"has {tokens(part):,} tokens"
    )
    if fits is None:
        return f"{failed}, and not even one {one} fits: {remedy}"
    return f"{failed}, {tokens(fits):,} fit: train with --set train.micro_tokens={tokens(fits)}"


def _rows(part: MicroBatch) -> int:
    return len(part.ids) if isinstance(part, Batch) else len(part)


def _largest(part: MicroBatch) -> int:
    return part.ids.shape[1] - 1 if isinstance(part, Batch) else max(group.instance.n for group in part)
