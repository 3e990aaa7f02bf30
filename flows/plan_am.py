"""What training the attention models would cost: arithmetic on their spec."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from flows.spec import PipelineSpec
from tasks.am_spec import AmNetworkSpec


@dataclass(frozen=True)
class AttentionPlan:
    """Attention models: how many, instances that each is trained on, wall-clock seconds of all."""

    models: int
    instances: int
    seconds: float


def plan_attention(
    spec: PipelineSpec, routes: Callable[[int], float], flops_a_second: float
) -> AttentionPlan | None:
    """Return the cost of the attention models that the benchmark compares with, None where it has none.

    Parameters
    ----------
    routes
        About how many routes serve so many customers.
    """
    if not spec.compares_am:
        return None
    am = spec.attention
    sizes = am.sizes or ()
    flops = 0.0
    for n in sizes:
        encoder, path = _encoder_flops(am.network, n), _path_flops(am.network, n, n + routes(n))
        # Three times forward for the network and its gradient, a rollout, and the baseline's.
        step = am.batch_of(n) * (3 * encoder + 4 * am.paths * path + encoder + path)
        compared = (am.epochs + 1) * 2 * am.evaluation * (encoder + path)
        flops += am.steps(n) * step + compared
    return AttentionPlan(len(sizes), am.epochs * am.epoch_instances, flops / flops_a_second)


def _encoder_flops(network: AmNetworkSpec, n: int) -> float:
    products = 4 * network.dim**2 + 2 * network.dim * network.ff
    return 2 * network.layers * (n + 1) * (products + 2 * (n + 1) * network.dim)


def _path_flops(network: AmNetworkSpec, n: int, steps: float) -> float:
    return 2 * steps * 3 * (n + 1) * network.dim  # two products of the glimpse, one of the scores
