"""Out of memory: what a rank says, and how large a micro-batch would have fitted."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence

import torch

from mcvrp.model.features import Batch
from mcvrp.model.paths import Group

Part = Batch | Sequence[Group]  # of the work of a step: labels, or instances whose paths are to be drawn

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


def tokens(part: Part) -> int:
    """Return problem and solution tokens of a micro-batch with its padding, as train.micro_tokens counts."""
    if isinstance(part, Batch):
        return part.ids.numel() + part.path[:, 1:].numel()
    return policy_tokens(len(part), _largest(part), len(part[0].uniforms))


def policy_tokens(instances: int, largest: int, samples: int) -> int:
    """Return the tokens of instances of ``largest`` customers with their paths, as long as those can be."""
    return instances * (largest + 1 + samples * 2 * largest)


def largest_that_fits(part: Part, attempt: Callable[[Part], object]) -> Part | None:
    """Return the largest of half, a quarter, ... of ``part`` that ``attempt`` has the memory for.

    None if it has not enough for a single sample, or for the paths of a single instance.
    """
    rows = _rows(part) // 2
    while rows:
        free_memory()
        less = part.first(rows) if isinstance(part, Batch) else part[:rows]
        if _fits(less, attempt):
            return less
        rows //= 2
    return None


def advice(part: Part, fits: Part | None) -> str:
    """Return one sentence on the micro-batch that did not fit and the one that does."""
    paths = "" if isinstance(part, Batch) else f", {len(part[0].uniforms)} paths each,"
    samples = "samples" if isinstance(part, Batch) else "instances"
    taken = (
        f"out of memory: a micro-batch of {_rows(part)} {samples} of up to {_largest(part)} customers{paths} "
        f"has {tokens(part):,} tokens"
    )
    if fits is not None:
        return f"{taken}, {tokens(fits):,} fit: train with --set train.micro_tokens={tokens(fits)}"
    if paths:
        return f"{taken}, and not even one instance fits: draw fewer paths (policy.samples of the phase)"
    smaller = f"train a smaller network, or on sizes below {_largest(part)}"
    return f"{taken}, and not even one sample fits: {smaller}"


def _rows(part: Part) -> int:
    return len(part.ids) if isinstance(part, Batch) else len(part)


def _largest(part: Part) -> int:
    return part.ids.shape[1] - 1 if isinstance(part, Batch) else max(group.instance.n for group in part)


def free_memory() -> None:
    """Hand back what no tensor uses any more."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _fits(part: Part, attempt: Callable[[Part], object]) -> bool:
    try:
        attempt(part)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        return False
    return True
