"""Check of the network on a GPU: is it right, does it take flash attention, and how fast is it?

Run as `python -m tests.gpu.check`; needs torch, numpy and this repository's `model` only. Prints
Markdown; exits with 1 if something is wrong. See README.md beside this file.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from mcvrp.model.decoding import Beam, Greedy, Nucleus, Strategy, decode
from mcvrp.model.features import Batch, CityTable
from mcvrp.model.instances import InstanceStream
from mcvrp.model.loss import losses
from mcvrp.model.network import FmMcvrp, NetworkConfig
from mcvrp.model.problem import City
from tests.support.batches import sweep_batch

SIZES = (20, 50, 100, 200, 400)
PAPER = NetworkConfig(10_001, dim=768, heads=12, encoder_layers=12, decoder_layers=12, ff=3072)
SMALL = NetworkConfig(101, dim=64, heads=4, encoder_layers=2, decoder_layers=2, ff=128)
CHECKED = NetworkConfig(10_001, dim=256, heads=8, encoder_layers=4, decoder_layers=4, ff=1024)
PRECISIONS = ("fp32", "tf32", "bf16")
SECONDS = 3.0  # of steps for each figure, at most
H200_BF16 = 989e12  # dense, a second: NVIDIA's data sheet


def main(arguments: list[str] | None = None) -> int:
    """Check, measure and print; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument(
        "--small", action="store_true", help="a tiny network: whether this script itself works"
    )
    parser.add_argument("--tokens", type=int, default=65_536, help="tokens of a micro-batch")
    parser.add_argument("--no-compile", action="store_true", help="leave out torch.compile")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    options = parser.parse_args(arguments)
    device = torch.device(options.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "processor"
    print(f"## {name}, PyTorch {torch.__version__}\n")
    wrong = check(SMALL if options.small else CHECKED, device)
    config = SMALL if options.small else PAPER
    tokens, sizes = (2048, (20, 50)) if options.small else (options.tokens, tuple(options.sizes))
    print(f"\n### Training, {config.parameters() / 1e6:.0f} M parameters, bf16, dropout {config.dropout}\n")
    print("| n | compile | batch | tokens/s | TFLOP/s | MFU | peak memory |\n|---|---|---|---|---|---|---|")
    for compiled in (False,) if options.no_compile else (False, True):
        train(config, device, sizes, tokens, compiled)
    print(f"\n### Decoding, {config.parameters() / 1e6:.0f} M parameters, random weights\n")
    print("| n | instances | samples | rotations | | seconds | instances/s | tokens/s | peak memory |")
    print("|---|---|---|---|---|---|---|---|---|")
    net = FmMcvrp(config).to(device).eval()
    many, samples = (4, 10) if options.small else (256, 1000)
    for n in sizes:
        for precision in PRECISIONS:
            route(net, device, precision, n, Greedy(), instances=many)
            route(net, device, precision, n, Nucleus(), instances=1, samples=samples)
            route(net, device, precision, n, Nucleus(), instances=1, samples=samples, rotations=10)
        route(net, device, "tf32", n, Nucleus(), instances=1, samples=samples, rotations=samples)
        route(net, device, "tf32", n, Beam(samples // 10), instances=1)
    print(f"\n{'All is right.' if not wrong else 'WRONG: ' + '; '.join(wrong)}")
    return 1 if wrong else 0


# --- is it right?


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


# --- how fast is it?


def train(
    config: NetworkConfig, device: torch.device, sizes: tuple[int, ...], tokens: int, compiled: bool
) -> None:
    """Print a line for each size: steps of one micro-batch of real tokens, AdamW included."""
    city = City.uniform(config.classes - 1, 1)
    table, net = CityTable.of(city, device), FmMcvrp(config).to(device).train()
    adam = torch.optim.AdamW(net.parameters(), lr=1e-5, fused=True)
    if compiled:
        for block in [*net.encoder, *net.decoder]:
            block.compile(dynamic=True)
    for n in sizes:
        rows = max(1, tokens // (2 * n + n // 8 + 2))
        batch = sweep_batch(city, [n] * rows).to(device)
        problem, solution = batch.lengths.tolist(), (batch.path_lengths - 1).tolist()

        def step(batch: Batch = batch) -> None:
            adam.zero_grad(set_to_none=True)
            scaled_loss(net, table, batch, bf16=True).backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0, foreach=True)
            adam.step()

        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        seconds = median_seconds(step, device)
        flops = sum(training_flops(config, t, s) for t, s in zip(problem, solution, strict=True)) / seconds
        rate = (sum(problem) + sum(solution)) / seconds
        print(
            f"| {n} | {'yes' if compiled else 'no'} | {rows} | {rate:,.0f} | {flops / 1e12:.1f} "
            f"| {flops / H200_BF16:.1%} | {peak_memory(device)} |",
            flush=True,
        )


def training_flops(config: NetworkConfig, problem: int, solution: int) -> int:
    """Return the floating-point operations of a training step for one sample, by its numbers of tokens.

    A multiplication and its addition are two operations, and the backward pass takes twice the forward's.
    Matrix products only; causal attention counts half of its square; nothing recomputed, no padding.
    """
    t, s, d, ff = problem, solution, config.dim, config.ff
    encoder_layer = t * (4 * d * d + 2 * d * ff) + 2 * t * t * d
    cross = s * 2 * d * d + t * 2 * d * d + 2 * s * t * d
    decoder_layer = s * (4 * d * d + 2 * d * ff) + s * s * d + cross
    output = t * d * config.classes + s * t * d  # all nodes for the problem, the instance's for the solution
    products = config.encoder_layers * encoder_layer + config.decoder_layers * decoder_layer + output
    return 3 * 2 * products


def route(
    net: FmMcvrp,
    device: torch.device,
    precision: str,
    n: int,
    strategy: Strategy,
    instances: int,
    samples: int = 1,
    rotations: int = 1,
) -> None:
    """Print a line: how long it takes to decode ``instances``, and in how much memory."""
    city = City.uniform(net.config.classes - 1, 1)
    stream = InstanceStream(city, 1, "test")
    batch = [stream(n, i) for i in range(instances)]
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    net = net.to_bf16() if precision == "bf16" else net.float()  # rounded once: the weights are random
    decode(net, city, batch[:1], strategy=strategy, samples=min(samples, 2))  # warm up
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    began = time.perf_counter()  # decoding ends with its answer on the processor
    answers = decode(net, city, batch, strategy=strategy, samples=samples, rotations=rotations)
    seconds = time.perf_counter() - began
    tokens = sum(int(np.count_nonzero(answer.paths)) for answer in answers)
    print(
        f"| {n} | {instances} | {samples} | {rotations} | {strategy.description}, {precision} | {seconds:.2f}"
        f" | {instances / seconds:,.2f} | {tokens / seconds:,.0f} | {peak_memory(device)} |",
        flush=True,
    )


def peak_memory(device: torch.device) -> str:
    return f"{torch.cuda.max_memory_allocated(device) / 2**30:.1f} GiB" if device.type == "cuda" else ""


def median_seconds(step: Callable[[], None], device: torch.device) -> float:
    """Return the median duration of ``step`` after three that warm up."""
    wait = (lambda: torch.cuda.synchronize(device)) if device.type == "cuda" else (lambda: None)
    for _ in range(3):
        step()
    wait()
    durations: list[float] = []
    while len(durations) < 3 or (sum(durations) < SECONDS and len(durations) < 50):
        began = time.perf_counter()
        step()
        wait()
        durations.append(time.perf_counter() - began)
    return statistics.median(durations)


if __name__ == "__main__":
    sys.exit(main())
