"""Output layer and cross-entropy over all classes as one operation, without storing all scores.

The paper's network has 10,001 classes; the fp32 scores of one global batch of 400 customers would take 4 GB,
and their gradient the same. Here the scores of a few tokens exist at a time, and nothing is computed twice.
PyTorch's `linear_cross_entropy` does the same without the correct predictions.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

# Multiple to which the classes are padded: a GPU multiplies matrices of odd sizes, such as the paper's 10,001
# classes, at a third of the speed.
_ALIGNED_ON_GPU, _ALIGNED_ON_CPU = 64, 1
# Scores at a time: large products on a GPU, the size of the caches on a CPU.
_SCORES_ON_GPU, _SCORES_ON_CPU = 1 << 25, 1 << 22


def linear_cross_entropy(
    embeddings: Tensor, weight: Tensor, target: Tensor, counted: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the summed cross-entropy of ``embeddings @ weight.T`` and the number of correct predictions.

    ``embeddings`` are ``(N, D)``, ``weight`` ``(classes, D)``, ``target`` and the mask ``counted`` of the
    tokens in the loss ``(N,)``. Equals the plain computation in autocast's dtype for the product; softmax,
    loss and the sum of the weight's gradient are at least fp32. Gradients of gradients are not supported.
    """
    dtype, kind = embeddings.dtype, embeddings.device.type
    if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
        dtype = torch.get_autocast_dtype(kind)
    loss_sum, correct = _LinearCrossEntropy.apply(  # type: ignore[no-untyped-call]
        embeddings, weight, target, counted, dtype, torch.is_grad_enabled()
    )
    return loss_sum, correct


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        embeddings: Tensor,
        weight: Tensor,
        target: Tensor,
        counted: Tensor,
        dtype: torch.dtype,
        with_gradients: bool,
    ) -> tuple[Tensor, Tensor]:
        x, w, precise = embeddings.to(dtype), weight.to(dtype), torch.promote_types(dtype, torch.float32)
        loss_sum = torch.zeros((), dtype=precise, device=x.device)
        correct = torch.zeros((), dtype=torch.int64, device=x.device)
        x_gradient = torch.empty_like(embeddings) if with_gradients else None
        on_cpu = x.device.type == "cpu"
        w = F.pad(w, (0, 0, 0, -len(w) % (_ALIGNED_ON_CPU if on_cpu else _ALIGNED_ON_GPU)))
        w_gradient = torch.zeros_like(w, dtype=precise) if with_gradients else None
        rows = max(1, (_SCORES_ON_CPU if on_cpu else _SCORES_ON_GPU) // len(w))
        for at in range(0, len(x), rows):
            part = slice(at, at + rows)
            count, right = counted[part, None].to(dtype), target[part, None]  # (R, 1) each
            scores = x[part] @ w.T  # (R, classes and padding)
            scores[:, len(weight) :] = -torch.inf
            log_p = scores.log_softmax(-1, dtype=precise)
            log_p_right = log_p.gather(1, right)
            loss_sum -= (log_p_right * count).sum()
            correct += ((log_p.argmax(1) == target[part]) & counted[part]).sum()
            if x_gradient is None or w_gradient is None:
                continue
            # Softmax minus one-hot. 1 - p of the right class comes from its logarithm: the
            # dtype of the product would round it away where the network is sure.
            gradient = torch.exp(log_p, out=scores).scatter_(1, right, log_p_right.expm1().to(dtype))
            x_gradient[part] = gradient @ w * count
            w_gradient += gradient.T @ (x[part] * count)
        if x_gradient is not None and w_gradient is not None:
            ctx.save_for_backward(x_gradient, w_gradient[: len(weight)].to(weight.dtype))
        ctx.mark_non_differentiable(correct)
        return loss_sum, correct

    @staticmethod
    def backward(ctx: Any, loss_gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        x_gradient, w_gradient = ctx.saved_tensors
        return x_gradient * loss_gradient, w_gradient * loss_gradient, None, None, None, None
