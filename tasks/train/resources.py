"""Resources of the ranks: their number by GPUs and cores, and the memory that sampled paths need at least.

Checked before training, without torch on machines without GPU: its import takes seconds.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from mcvrp.memory import available_memory
from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City
from mcvrp.tasks.train.resume import network_of
from mcvrp.tasks.train.spec import TrainSpec

_SHARE = 32  # minimum samples per rank and step, if the number of ranks is not given
_BYTES = 4  # per number
# Activations that the gradient of one token of a path needs, counted in `model.network`: per decoder layer
# so many vectors of the embedding dimension and of the feed-forward dimension, and once per node.
_OF_WIDTH, _OF_FF, _OF_NODE = 14, 3, 6
_COPIES = 4  # weights, gradients, two moments


def rank_count(spec: TrainSpec, cores: int) -> int:
    """Return the number of ranks: as specified, otherwise one per GPU, or one per core for large batches.

    On idle cores two ranks of one thread train a small network 1.8 times as fast as one rank
    of two threads (BENCHMARKS.md): threads synchronize after every operation, ranks once per step.
    McvrpError if a batch cannot be divided equally among them, or they are those of a cluster, which this
    machine cannot count.
    """
    if spec.launcher == "ray" and not spec.ranks and os.environ.get("RAY_ADDRESS"):
        raise McvrpError(
            "train.launcher = ray trains on the cluster, whose GPUs this machine cannot count: "
            "set train.ranks to their number"
        )
    divided = {"train.batch": spec.batch}
    divided |= {f"policy.instances of phase {p.name}": p.policy.instances for p in spec.phases if p.policy}
    ranks = spec.ranks or _gpus()
    if not ranks:
        shares = [r for r in range(1, cores + 1) if all(count % r == 0 for count in divided.values())]
        ranks = max((r for r in shares if spec.batch // r >= _SHARE), default=1)
    for field, count in divided.items():
        if count % ranks:
            raise McvrpError(
                f"{field} = {count} cannot be divided among {ranks} ranks: use a multiple of {ranks}"
            )
    return ranks


def require_cores(ranks: int, cores: int) -> None:
    """Raise McvrpError if this machine has fewer ``cores`` than ``ranks``, or GPUs, but fewer.

    Also if DeepSpeed would use another accelerator, see `require_accelerator`.
    """
    require_accelerator()
    if ranks > cores:
        raise McvrpError(
            f"train.ranks = {ranks}, but this machine has {cores} cores: request {cores} or fewer"
        )
    if 0 < (gpus := _gpus()) < ranks:
        raise McvrpError(
            f"train.ranks = {ranks}, but this machine has {gpus} GPU{'s' if gpus > 1 else ''}: "
            f"request at most {gpus}"
        )


def require_accelerator() -> None:
    """Raise McvrpError if DS_ACCELERATOR, DeepSpeed's own variable, is not the device that ranks train on."""
    if (chosen := os.environ.get("DS_ACCELERATOR")) is None:
        return
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    if chosen != device:
        raise McvrpError(
            f"DS_ACCELERATOR={chosen}, but this machine trains on {device}: remove the variable, or set it "
            f"to {device}"
        )


def require_tracker(spec: TrainSpec) -> None:
    """Raise McvrpError if MLflow is not installed, but is to get the metrics."""
    if spec.tracker == "mlflow" and not find_spec("mlflow"):
        raise McvrpError(
            "train.tracker = mlflow, but MLflow is not installed: run pip install '.[mlflow]' in the source "
            "folder of mcvrp, or set tensorboard"
        )


def require_memory(city: City, spec: TrainSpec, ranks: int) -> None:
    """Raise McvrpError if the paths of a single instance cannot fit into the free memory.

    A lower bound, with paths of half the maximum length. A phase that passes may still run out of memory
    in a step, and then reports the micro-batch that fits.
    """
    phases = [(phase, phase.policy) for phase in spec.phases if phase.policy]
    if not phases:
        return
    import torch

    from mcvrp.model.network import NetworkConfig

    weights = _COPIES * _BYTES * NetworkConfig(**network_of(city, spec)).parameters()
    own = [torch.cuda.mem_get_info(gpu)[0] for gpu in range(min(ranks, _gpus()))]  # a GPU per rank
    free = min(own, default=available_memory() / ranks)
    for phase, policy in phases:
        layer = _OF_WIDTH * spec.network.dim + _OF_FF * spec.network.ff
        per_node = spec.network.decoder_layers * layer + _OF_NODE * (phase.last + 1)
        path_bytes = _BYTES * phase.last * per_node
        needed, fit = weights + policy.samples * path_bytes, int((free - weights) // path_bytes)
        if fit < policy.samples:
            remedy = f"{fit:,} would fit" if fit > 1 else "not even two would fit: train a smaller network"
            raise McvrpError(
                f"phase {phase.name}: policy.samples = {policy.samples:,} paths of {phase.last} customers "
                f"need {needed / 2**30:,.1f} GiB, a rank has {free / 2**30:,.1f} GiB: {remedy}"
            )


def _gpus() -> int:
    if not Path("/proc/driver/nvidia").exists():
        return 0
    import torch

    return torch.cuda.device_count()
