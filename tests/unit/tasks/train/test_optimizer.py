"""Muon against PyTorch's own and the singular value decomposition; which parameters it updates."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from mcvrp.model.network import FmMcvrp, NetworkConfig
from mcvrp.tasks.train.optimizer import Muon, MuonAdamW, make_optimizer, moments_of, orthogonal


@pytest.mark.parametrize("shape", [(16, 16), (48, 16), (16, 64)])
def test_a_step_is_pytorchs(shape: tuple[int, int]) -> None:
    """Within the rounding of bf16, with momentum, weight decay and a changing learning rate."""
    torch.manual_seed(0)
    ours, theirs = (nn.Parameter(torch.randn(shape)) for _ in range(2))
    theirs.data.copy_(ours.data)
    begun = ours.detach().clone()
    mine = Muon([ours], weight_decay=0.1)
    reference = torch.optim.Muon([theirs], lr=0.0, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    for k in range(5):
        ours.grad = torch.randn(shape)
        theirs.grad = ours.grad.clone()
        for optimizer in (mine, reference):
            optimizer.param_groups[0]["lr"] = 0.01 * (5 - k)
            optimizer.step()  # type: ignore[no-untyped-call]
    moved = (ours.detach() - begun).abs().max()
    assert (ours - theirs).abs().max() < 0.02 * moved


def test_orthogonal_keeps_singular_vectors() -> None:
    torch.manual_seed(1)
    u, v = (torch.linalg.qr(torch.randn(12, 12)).Q for _ in range(2))
    values = torch.logspace(0, -2, 12)
    found = u.T @ orthogonal(u @ values.diag() @ v.T) @ v
    assert ((found.diagonal() > 0.6) & (found.diagonal() < 1.3)).all()
    torch.testing.assert_close(found, found.diagonal().diag(), atol=1e-4, rtol=0)
    assert torch.isfinite(orthogonal(torch.zeros(3, 5))).all()


def test_muon_has_the_matrices_of_the_blocks_and_adamw_the_rest() -> None:
    """Input and output layers, pointer, biases and norms have AdamW's two moments."""
    network = FmMcvrp(
        NetworkConfig(31, dim=16, heads=2, encoder_layers=1, decoder_layers=1, ff=32, pointer=True)
    )
    parameters = dict(network.named_parameters())
    optimizer = make_optimizer("muon", parameters, 0.01)
    assert isinstance(optimizer, MuonAdamW)
    one = {name for name, p in parameters.items() if len(moments_of(optimizer, p)) == 1}
    assert one == {n for n, p in parameters.items() if n.startswith(("encoder.", "decoder.")) and p.ndim == 2}
    for p in parameters.values():
        p.grad = torch.ones_like(p)
    before = {name: p.detach().clone() for name, p in parameters.items()}
    optimizer.step()
    assert all(torch.equal(p, before[name]) for name, p in parameters.items())  # with a rate of 0
    for group in optimizer.param_groups:
        group["lr"] = 0.1
    optimizer.step()
    assert not any(torch.equal(p, before[name]) for name, p in parameters.items())
    assert isinstance(make_optimizer("adamw", parameters, 0.01), torch.optim.AdamW)
