"""Out-of-memory errors: detection and description."""

from __future__ import annotations

import pytest
import torch

from mcvrp.model.features import Batch
from mcvrp.model.problem import City
from mcvrp.tasks.train.memory import is_out_of_memory, tokens, too_large
from tests.support.batches import sweep_batch


@pytest.fixture(scope="module")
def batch() -> Batch:
    return sweep_batch(City.uniform(60, 3), [20] * 13, rotated=True)


def test_a_micro_batch_that_does_not_fit_is_described(batch: Batch) -> None:
    """With its tokens, or the size if it is a single sample."""
    assert f"13 samples of up to 20 customers are {tokens(batch)} tokens" in too_large(batch)
    assert f"train.micro_tokens below {tokens(batch)}" in too_large(batch)
    assert "smaller sizes" in too_large(sweep_batch(City.uniform(60, 3), [20], rotated=True))


def test_other_errors_are_not_out_of_memory() -> None:
    assert not is_out_of_memory(RuntimeError("shapes do not fit"))


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("could not create a primitive"),  # oneDNN, without memory for its code
        MemoryError(),
    ],
)
def test_messages_of_allocators_are_recognized(error: Exception) -> None:
    assert is_out_of_memory(error)


def test_tokens_are_counted_as_the_stream_cuts_by_them(batch: Batch) -> None:
    """Nodes of the instances and predicted tokens of the paths, with padding."""
    assert tokens(batch) == 13 * (21 + batch.path.shape[1] - 1)
