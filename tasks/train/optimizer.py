"""Optimizers of a phase: AdamW, or Muon for the matrices of the network's blocks and AdamW for the rest.

Muon (Jordan et al. 2024) makes every step of a matrix orthogonal, so that none of its directions learns
slower than the others; on small networks it takes about half of AdamW's steps (BENCHMARKS.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
from typing import Literal

from torch import nn
from torch.optim import AdamW, Muon, Optimizer

OptimizerName = Literal["adamw", "muon"]
MOMENTS = ("exp_avg", "exp_avg_sq")  # as checkpoints name them; Muon has the first only
_BETAS, _EPS = (0.9, 0.999), 1e-8  # PyTorch's defaults; the paper names none
_BLOCKS = ("encoder.", "decoder.")


class MuonAdamW(Optimizer):
    """Muon and AdamW as one optimizer: each of their groups of parameters, one state, one step."""

    def __init__(self, muon: Muon, adamw: AdamW) -> None:
        self.parts = muon, adamw
        groups = [group for part in self.parts for group in part.param_groups]
        super().__init__([{"params": group["params"]} for group in groups], {})
        # One state and the very groups that the parts look at: who changes a learning rate changes theirs.
        self.param_groups = groups
        for part in self.parts:
            part.state = self.state

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Take a step of either."""
        for part in self.parts:
            part.step()  # type: ignore[no-untyped-call]


def make_optimizer(
    name: OptimizerName, parameters: Mapping[str, nn.Parameter], weight_decay: float
) -> Optimizer:
    """Return the optimizer ``name`` of ``parameters`` by name, with a learning rate of 0 at first."""
    matrices = {
        key: p for key, p in parameters.items() if name == "muon" and p.ndim == 2 and key.startswith(_BLOCKS)
    }
    others = [p for key, p in parameters.items() if key not in matrices]
    # Fused: one kernel for all parameters.
    adamw = AdamW(others, lr=0.0, betas=_BETAS, eps=_EPS, weight_decay=weight_decay, fused=True)
    if not matrices:
        return adamw
    # Steps as large as AdamW's are, so that both take the same learning rate (Liu et al. 2025).
    muon = Muon(matrices.values(), lr=0.0, weight_decay=weight_decay, adjust_lr_fn="match_rms_adamw")
    return MuonAdamW(muon, adamw)


def state_keys(optimizer: Optimizer, parameter: nn.Parameter) -> dict[str, str]:
    """Return where the optimizer keeps its moments of ``parameter``, by their names in `MOMENTS`."""
    if isinstance(optimizer, MuonAdamW):
        muon = chain.from_iterable(group["params"] for group in optimizer.parts[0].param_groups)
        if any(parameter is each for each in muon):
            return {MOMENTS[0]: "momentum_buffer"}
    return {kind: kind for kind in MOMENTS}
