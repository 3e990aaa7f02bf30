"""The chunked loss of the output layer against the plain one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from mcvrp.model import linear_cross_entropy as module
from mcvrp.model.linear_cross_entropy import linear_cross_entropy

N, D, CLASSES = 23, 8, 11


@pytest.fixture(params=[1, CLASSES * 7, 1 << 20], ids=["a token", "seven tokens", "all"], autouse=True)
def chunk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SCORES_ON_CPU", request.param)


@pytest.fixture(params=[1, 4, 64])
def aligned(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Classes padded as on a GPU, to a multiple of so many."""
    monkeypatch.setattr(module, "_ALIGNED_ON_CPU", request.param)


def inputs(dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    embeddings = torch.randn(N, D, generator=generator, dtype=dtype).requires_grad_()
    weight = torch.randn(CLASSES, D, generator=generator, dtype=dtype).requires_grad_()
    target = torch.randint(CLASSES, (N,), generator=generator)
    counted = torch.rand(N, generator=generator) < 0.7
    return embeddings, weight, target, counted


def plain(
    embeddings: torch.Tensor, weight: torch.Tensor, target: torch.Tensor, counted: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    scores = F.linear(embeddings, weight)[counted]
    loss_sum = F.cross_entropy(scores.to(torch.float64), target[counted], reduction="sum")
    return loss_sum, (scores.argmax(-1) == target[counted]).sum()


@pytest.mark.usefixtures("aligned")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equals_the_plain_computation(dtype: torch.dtype) -> None:
    """Loss, right answers and both gradients are those of all scores at once, padding left out."""
    chunked, expected = inputs(dtype), inputs(dtype)
    loss, correct = linear_cross_entropy(*chunked)
    reference, right = plain(*expected)
    (3 * loss).backward()  # whatever the loss is multiplied with reaches the gradients
    (3 * reference).backward()
    limit = 1e-5 if dtype == torch.float32 else 1e-12
    torch.testing.assert_close(loss.double(), reference, atol=limit, rtol=limit)
    assert correct == right > 0
    for a, b in zip(chunked[:2], expected[:2], strict=True):
        torch.testing.assert_close(a.grad, b.grad, atol=limit, rtol=limit)


class Largest(TorchDispatchMode):
    """Counts the elements of the largest tensor that is made."""

    elements = 0

    def __torch_dispatch__(
        self,
        operation: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        made = operation(*args, **(kwargs or {}))
        for tensor in made if isinstance(made, (tuple, list)) else (made,):
            if isinstance(tensor, torch.Tensor):
                self.elements = max(self.elements, tensor.numel())
        return made


def test_the_scores_of_all_tokens_never_exist_at_once() -> None:
    """No tensor, forward or backward, is larger than embeddings, weight and the scores of a chunk."""
    with Largest() as largest:
        loss, _ = linear_cross_entropy(*inputs())
        loss.backward()
    assert N * D <= largest.elements <= max(N * D, CLASSES * D, module._SCORES_ON_CPU)


def test_autocast_rounds_the_product_only() -> None:
    """In bfloat16 the gradients stay within its rounding of the exact ones, in the dtype of the inputs."""
    exact, half = inputs(torch.float32), inputs(torch.float32)
    linear_cross_entropy(*exact)[0].backward()
    with torch.autocast("cpu", torch.bfloat16):
        loss, _ = linear_cross_entropy(*half)
    loss.backward()
    assert loss.dtype == torch.float32
    for a, b in zip(half[:2], exact[:2], strict=True):
        assert a.grad is not None
        assert b.grad is not None
        assert a.grad.dtype == torch.float32
        assert float((a.grad - b.grad).norm() / b.grad.norm()) < 0.02


def test_a_sure_network_keeps_its_small_gradients_in_bfloat16() -> None:
    """The gradient at p = 0.999 of the right class is 0.001 to a few percent, not rounded to 0."""
    x = torch.ones(1, 1, requires_grad=True)
    w = torch.tensor([[7.0], [0.0]])
    counted, target = torch.ones(1, dtype=torch.bool), torch.zeros(1, dtype=torch.int64)
    with torch.autocast("cpu", torch.bfloat16):
        loss, _ = linear_cross_entropy(x, w, target, counted)
    loss.backward()
    exact = -7.0 * torch.sigmoid(torch.tensor(-7.0))
    assert x.grad is not None
    assert float(x.grad) == pytest.approx(float(exact), rel=0.02)


def test_without_gradients_there_is_the_loss_alone() -> None:
    values = inputs()
    with torch.no_grad():
        loss, _ = linear_cross_entropy(*values)
    assert not loss.requires_grad
    torch.testing.assert_close(loss, linear_cross_entropy(*values)[0].detach())
