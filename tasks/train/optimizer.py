"""Optimizers: AdamW, or Muon for the matrices of the network's blocks and AdamW for all other parameters.

Muon (Jordan et al. 2024) orthogonalizes the update of a matrix, so that all of its directions learn at
the same rate; on small networks it needs about half of AdamW's steps (BENCHMARKS.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

OptimizerName = Literal["adamw", "muon"]
MOMENTS = ("exp_avg", "exp_avg_sq")  # their names in checkpoints; Muon has only the first
_BETAS, _EPS = (0.9, 0.999), 1e-8  # PyTorch's defaults; the paper names none
_MOMENTUM = 0.95  # Muon
_BLOCKS = ("encoder.", "decoder.")


class Muon(Optimizer):
    """Muon optimizer of matrices.

    Equal to `torch.optim.Muon`, except for fp32 on CPUs, where its bf16 takes 2.5 times as long. The
    scale of updates matches AdamW's, so that both use the same learning rate (Liu et al. 2025).
    """

    def __init__(self, matrices: Iterable[nn.Parameter], weight_decay: float) -> None:
        super().__init__(matrices, {"lr": 0.0, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update every matrix that has a gradient."""
        for group in self.param_groups:
            lr, decay = group["lr"], group["weight_decay"]
            for matrix in group["params"]:
                if matrix.grad is None:
                    continue
                moment = self.state[matrix].setdefault(MOMENTS[0], torch.zeros_like(matrix))
                moment.lerp_(matrix.grad, 1 - _MOMENTUM)
                step = orthogonal(matrix.grad.lerp(moment, _MOMENTUM))  # Nesterov momentum
                matrix.mul_(1 - lr * decay)
                matrix.add_(step.to(matrix.dtype), alpha=-lr * 0.2 * max(matrix.shape) ** 0.5)


def orthogonal(matrix: Tensor) -> Tensor:
    """Return the approximate orthogonal factor U V' of ``matrix`` = U S V': singular values of 0.7 to 1.2.

    Five steps of a Newton-Schulz iteration with the coefficients of Jordan et al. (2024).
    """
    x = matrix if matrix.device.type == "cpu" else matrix.bfloat16()
    tall = x.shape[0] > x.shape[1]
    x = x.mT if tall else x
    x = x / x.norm().clamp_min(1e-7)
    for _ in range(5):
        gram = x @ x.mT
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=-4.7750, alpha=2.0315), x, beta=3.4445)
    return x.mT if tall else x


class MuonAdamW(Optimizer):
    """Muon and AdamW as one optimizer, with the parameter groups of both and one state."""

    def __init__(self, muon: Muon, adamw: AdamW) -> None:
        self.parts = muon, adamw
        self.matrices = {matrix for group in muon.param_groups for matrix in group["params"]}
        groups = [group for part in self.parts for group in part.param_groups]
        super().__init__([{"params": group["params"]} for group in groups], {})
        # The same objects as in the parts, so that a change of the learning rate reaches them.
        self.param_groups = groups
        for part in self.parts:
            part.state = self.state

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Step both optimizers."""
        for part in self.parts:
            part.step()


def make_optimizer(
    name: OptimizerName, parameters: Mapping[str, nn.Parameter], weight_decay: float
) -> Optimizer:
    """Return the optimizer ``name`` for ``parameters``, with a learning rate of 0 until the first step."""
    matrices = {
        key: p for key, p in parameters.items() if name == "muon" and p.ndim == 2 and key.startswith(_BLOCKS)
    }
    others = [p for key, p in parameters.items() if key not in matrices]
    # Fused: one kernel for all parameters instead of several for each.
    adamw = AdamW(others, lr=0.0, betas=_BETAS, eps=_EPS, weight_decay=weight_decay, fused=True)
    if not matrices:
        return adamw
    return MuonAdamW(Muon(matrices.values(), weight_decay), adamw)


def moments_of(optimizer: Optimizer, parameter: nn.Parameter) -> tuple[str, ...]:
    """Return which of `MOMENTS` the optimizer has for ``parameter``."""
    uses_muon = isinstance(optimizer, MuonAdamW) and parameter in optimizer.matrices
    return MOMENTS[:1] if uses_muon else MOMENTS
