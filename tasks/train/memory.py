"""Out of memory: what a rank says, and how large a micro-batch would have fitted."""

from __future__ import annotations

import gc
from collections.abc import Callable

import torch

from mcvrp.model.features import Batch

# What CUDA, cuBLAS, PyTorch's allocator, C++ and oneDNN say.
_ALLOCATORS = (
    "out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "can't allocate memory",
    "bad_alloc",
    "could not create a primitive",
    "could not create a memory",
)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether ``error`` says that memory ran out, on the GPU or in the processor's memory."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _ALLOCATORS)


def tokens(batch: Batch) -> int:
    """Return problem and solution tokens of a micro-batch with its padding, as train.micro_tokens counts."""
    return batch.ids.numel() + batch.path[:, 1:].numel()


def largest_that_fits(batch: Batch, attempt: Callable[[Batch], object]) -> Batch | None:
    """Return the largest of half, a quarter, ... of ``batch`` that ``attempt`` has the memory for.

    None if it has not enough for a single sample.
    """
    rows = len(batch.ids) // 2
    while rows:
        free_memory()
        part = batch.first(rows)
        if _fits(part, attempt):
            return part
        rows //= 2
    return None


def advice(batch: Batch, fits: Batch | None) -> str:
    """Return one sentence on the micro-batch that did not fit and the one that does."""
    size = batch.ids.shape[1] - 1
    taken = (
        f"out of memory: a micro-batch of {len(batch.ids)} samples of up to {size} customers "
        f"has {tokens(batch):,} tokens"
    )
    if fits is None:
        return f"{taken}, and not even one sample fits: train a smaller network, or on sizes below {size}"
    return f"{taken}, {tokens(fits):,} fit: train with --set train.micro_tokens={tokens(fits)}"


def free_memory() -> None:
    """Hand back what no tensor uses any more."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _fits(part: Batch, attempt: Callable[[Batch], object]) -> bool:
    try:
        attempt(part)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        return False
    return True
