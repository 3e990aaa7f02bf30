"""Out-of-memory errors: detection and advice, with fake allocators."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
import torch

from mcvrp.model.features import Batch
from mcvrp.model.problem import City
from mcvrp.tasks.train.memory import advice, is_out_of_memory, largest_that_fits, tokens
from tests.support.batches import sweep_batch


@pytest.fixture(scope="module")
def batch() -> Batch:
    return sweep_batch(City.uniform(60, 3), [20] * 13, rotated=True)


@pytest.mark.parametrize("room", [12, 6, 4, 1])
def test_halves_are_tried_until_one_fits(batch: Batch, room: int) -> None:
    """The result is the first of 6, 3 and 1 of 13 samples for which there is memory."""
    tried = []

    def attempt(part: Batch) -> None:
        tried.append(len(part.ids))
        if len(part.ids) > room:
            raise torch.OutOfMemoryError("CUDA out of memory")

    fits = largest_that_fits(batch, attempt)
    assert isinstance(fits, Batch)
    assert len(fits.ids) == tried[-1] == next(rows for rows in (6, 3, 1) if rows <= room)
    assert len(fits.angle) == len(fits.path) == len(fits.ids)  # type: ignore[arg-type]
    assert f"--set train.micro_tokens={tokens(fits)}" in advice(batch, fits)


def test_if_no_sample_fits_the_size_is_named(batch: Batch) -> None:
    """The message has the number of customers, and no number of tokens to try."""
    assert largest_that_fits(batch, Mock(side_effect=MemoryError)) is None
    assert "not even one sample fits: train a smaller network, or on sizes below 20" in advice(batch, None)


def test_other_errors_are_not_out_of_memory(batch: Batch) -> None:
    with pytest.raises(RuntimeError, match="shapes"):
        largest_that_fits(batch, Mock(side_effect=RuntimeError("shapes do not fit")))
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
