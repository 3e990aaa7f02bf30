"""Check of the network on a GPU: is it right, and does it take flash attention?

Run as `python -m tests.gpu.check`; needs torch, numpy and this repository's `model` only. Prints
Markdown; exits with 1 if something is wrong. See README.md beside this file.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from importlib.util import find_spec

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from mcvrp.model.features import Batch, CityTable
from mcvrp.model.loss import losses
from mcvrp.model.network import FmMcvrp, NetworkConfig
from mcvrp.model.problem import City
from tests.support.batches import sweep_batch

SMALL = NetworkConfig(101, dim=64, heads=4, encoder_layers=2, decoder_layers=2, ff=128)
CHECKED = NetworkConfig(10_001, dim=256, heads=8, encoder_layers=4, decoder_layers=4, ff=1024)


def main(arguments: list[str] | None = None) -> int:
    """Check and print; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument(
        "--small", action="store_true", help="a tiny network: whether this script itself works"
    )
    options = parser.parse_args(arguments)
    device = torch.device(options.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "processor"
    print(f"## {name}, PyTorch {torch.__version__}\n")
    wrong = check(SMALL if options.small else CHECKED, device)
    print(f"\n{'All is right.' if not wrong else 'WRONG: ' + '; '.join(wrong)}")
    return 1 if wrong else 0


def check(config: NetworkConfig, device: torch.device) -> list[str]:
    """Compare losses and gradients with the processor's fp32; return what is wrong."""
    city = City.uniform(config.classes - 1, 1)
    net = FmMcvrp(config).eval()  # no dropout: it would differ
    batches = {
        "padded, rotated": sweep_batch(city, [20, 23, 31, 50], rotated=True),
        "one size": sweep_batch(city, [40] * 4),
    }
    print("| batch | | loss | gradient |\n|---|---|---|---|")
    wrong = []
    for name, batch in batches.items():
        exact = gradient(net, city, batch, torch.device("cpu"), bf16=False)
        for bf16, allowed in ((False, 1e-4), (True, 0.05)):
            loss, grad = gradient(net, city, batch, device, bf16)
            off = abs(loss / exact[0] - 1), float((grad - exact[1]).norm() / exact[1].norm())
            kind = f"{name}, {'bf16' if bf16 else 'fp32'}"
            print(f"| {name} | {'bf16' if bf16 else 'fp32'} | {off[0]:.1e} | {off[1]:.1e} |")
            if not max(off) < allowed:
                wrong.append(f"{kind} is off by {max(off):.1e}")
    wrong += check_one_query(device) if device.type == "cuda" else []
    try:
        net.train(device.type == "cuda")  # with dropout, which the processor's flash attention does not know
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):  # anything else is an error
            gradient(net, city, batches["one size"], device, bf16=True)
        print("\nA batch of one size takes flash attention, forward and backward.")
    except RuntimeError as error:
        wrong.append(f"no flash attention for a batch of one size: {error}")
    return wrong


def check_one_query(device: torch.device) -> list[str]:
    """Compare the attention of decoding with PyTorch's in fp64, with padding and without."""
    if not find_spec("triton"):
        return ["Triton is missing: decoding takes twice the time"]
    from mcvrp.model.one_query import attend

    wrong, worst = [], dict.fromkeys((torch.float32, torch.bfloat16), 0.0)
    for dtype, tokens, size, padded in itertools.product(worst, (1, 64, 101), (16, 64), (False, True)):
        query = torch.randn(7, 3, 1, size, device=device, dtype=dtype)
        key, value = torch.randn(2, 7, 3, tokens + 5, size, device=device, dtype=dtype)[..., :tokens, :]
        lengths = torch.randint(1, tokens + 1, (7, 1), device=device)
        mask = (torch.arange(tokens, device=device) < lengths)[:, None, None] if padded else None
        found = attend(query, key, value, mask)
        exact = F.scaled_dot_product_attention(query.double(), key.double(), value.double(), attn_mask=mask)
        worst[dtype] = max(worst[dtype], float((found - exact).abs().max()))
    print(
        f"\nAttention of one query is off by {worst[torch.float32]:.1e}, {worst[torch.bfloat16]:.1e} in bf16."
    )
    if worst[torch.float32] > 1e-5 or worst[torch.bfloat16] > 0.03:
        wrong.append("attention of one query")
    return wrong


def gradient(
    net: FmMcvrp, city: City, batch: Batch, device: torch.device, bf16: bool
) -> tuple[float, Tensor]:
    """Return loss and gradient of ``batch`` on ``device``, the gradient flat and on the processor."""
    net.to(device).zero_grad(set_to_none=True)
    loss = scaled_loss(net, CityTable.of(city, device), batch.to(device), bf16)
    loss.backward()
    flat = torch.cat([p.grad.flatten().double().cpu() for p in net.parameters() if p.grad is not None])
    return float(loss.detach()), flat


def scaled_loss(net: FmMcvrp, table: CityTable, batch: Batch, bf16: bool) -> Tensor:
    """Return the sum of both streams' means."""
    with torch.autocast(table.delta.device.type, torch.bfloat16, enabled=bf16):
        found = losses(net, table, batch)
    assert found.solution is not None
    return found.problem.loss_sum / found.problem.tokens + found.solution.loss_sum / found.solution.tokens


if __name__ == "__main__":
    sys.exit(main())
