"""Resources of the ranks: their number by GPUs and cores.

Checked before training, without torch on machines without GPU: its import takes seconds.
"""

from __future__ import annotations

import os
from pathlib import Path

from mcvrp.model.errors import McvrpError
from mcvrp.tasks.train.spec import TrainSpec

_SHARE = 32  # minimum samples per rank and step, if the number of ranks is not given


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
    """Raise McvrpError if this machine has fewer ``cores`` than ``ranks``, or GPUs, but fewer."""
    if ranks > cores:
        raise McvrpError(
            f"train.ranks = {ranks}, but this machine has {cores} cores: request {cores} or fewer"
        )
    if 0 < (gpus := _gpus()) < ranks:
        raise McvrpError(
            f"train.ranks = {ranks}, but this machine has {gpus} GPU{'s' if gpus > 1 else ''}: "
            f"request at most {gpus}"
        )


def _gpus() -> int:
    if not Path("/proc/driver/nvidia").exists():
        return 0
    import torch

    return torch.cuda.device_count()
