"""DeepSpeed engine of the network: a training step on a global batch, and the state for a checkpoint.

Knows nothing of phases, stores or the clock. Weights, gradients and Adam's moments are fp32 in
every ZeRO stage, so the network's own parameters are what a checkpoint stores.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import NamedTuple

import deepspeed
import torch
import torch.distributed
from deepspeed.utils import safe_get_full_optimizer_state, safe_set_full_optimizer_state
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from mcvrp.model.features import Batch, CityTable, TravelCosts
from mcvrp.model.loss import StreamLoss, losses
from mcvrp.model.network import FmMcvrp
from mcvrp.model.partial_paths import Group
from mcvrp.model.policy import Sampled, draw, policy_loss
from mcvrp.storage.training.checkpoints import Arrays, Moments
from mcvrp.tasks.train.optimizer import MOMENTS, OptimizerName, make_optimizer, moments_of

_BUCKET = 50_000_000  # elements at most

MicroBatch = Batch | Sequence[Group]  # labels, or instances to sample paths for


@dataclass(frozen=True)
class EngineOptions:
    """Options of a step, named as in `tasks.train.spec.TrainSpec`."""

    train_decoder: bool
    zero: int
    bf16: bool
    weight_decay: float
    clip: float
    compile: bool = False
    optimizer: OptimizerName = "adamw"

    def precision(self, device: str) -> torch.autocast:
        """Return the context of the forward pass and of decoding: autocast, without effect in fp32."""
        return torch.autocast(device, torch.bfloat16, enabled=self.bf16)


@dataclass(frozen=True)
class Totals:
    """Denominators of a step's mean loss, counted over the global batch, and the weights of its terms."""

    problem_tokens: int = 1
    solution_tokens: int = 1
    paths: int = 1
    label_weight: float = 1.0  # of the supervised loss, in a policy-gradient phase
    risk: float | None = None  # see `model.policy.Sampled.advantages`


class TokenSums(NamedTuple):
    """Sums over the tokens of one stream of the labels: cross-entropy and correct predictions."""

    loss: float
    correct: float


class PathSums(NamedTuple):
    """Sums over instances for which paths were sampled; costs are those of a unit square of side 1."""

    cost: float  # mean over an instance's paths
    best_cost: float  # lowest of an instance's paths
    tokens: float  # nodes of the instances, and tokens of their paths


# Sums over the samples of a step by kind of work, float64 on the device: the fields of `TokenSums` for
# "problem" and "solution", those of `PathSums` for "paths". A kind that a step does not have is absent.
Sums = dict[str, Tensor]


class Step(nn.Module):
    """The network and its loss as one module, which is what DeepSpeed wraps."""

    def __init__(self, network: FmMcvrp, table: CityTable, options: EngineOptions) -> None:
        super().__init__()
        self.network, self.table, self.options = network, table, options

    def forward(self, batch: Batch | Sampled, totals: Totals, ranks: int) -> tuple[Tensor, Sums]:
        """Return the scaled loss of a micro-batch, and its sums."""
        device = self.table.delta.device.type
        # PyTorch's flash attention on CPUs is slower in bf16 than the plain computation.
        slow = device == "cpu" and self.options.bf16
        kernels = sdpa_kernel(SDPBackend.MATH) if slow else nullcontext()
        with kernels, self.options.precision(device):
            if isinstance(batch, Sampled):
                # No dropout: the gradient has to be that of the distribution that the paths come from.
                self.network.eval()
                loss = policy_loss(self.network, self.table, batch, totals.risk) * (ranks / totals.paths)
                self.network.train()
                return loss, {"paths": _path_sums(batch)}
            streams = losses(self.network, self.table, batch, self.options.train_decoder)
        loss = streams.problem.loss_sum * (totals.label_weight * ranks / totals.problem_tokens)
        sums = {"problem": _token_sums(streams.problem)}
        if streams.solution is not None:
            loss = loss + streams.solution.loss_sum * (totals.label_weight * ranks / totals.solution_tokens)
            sums["solution"] = _token_sums(streams.solution)
        return loss, sums


def _token_sums(stream: StreamLoss) -> Tensor:
    return torch.stack([s.detach().double() for s in (stream.loss_sum, stream.correct)])


def _path_sums(sampled: Sampled) -> Tensor:
    costs = sampled.costs.double()
    tokens = sampled.batch.lengths.sum() + (sampled.batch.path_lengths - 1).sum()
    return torch.stack([costs.mean(1).sum(), costs.amin(1).sum(), tokens.double()])


class Engine:
    """Trains the parameters of one phase; all others are frozen, without gradient or weight decay.

    ``network`` has its initial weights, ``table`` is on the device of this rank; ``costs`` are needed to
    sample paths.
    """

    def __init__(
        self, network: FmMcvrp, table: CityTable, options: EngineOptions, costs: TravelCosts | None = None
    ) -> None:
        self.network, self.options, self._costs = network.to(table.delta.device), options, costs
        self._ranks = torch.distributed.get_world_size()  # DeepSpeed averages gradients over the ranks
        trained = set(network.parameters() if options.train_decoder else network.encoder_parameters())
        for parameter in network.parameters():
            parameter.requires_grad_(parameter in trained)
        if options.compile:
            for block in [*network.encoder, *network.decoder]:
                block.compile(dynamic=True)  # shapes differ from batch to batch
        self._trained = {name: p for name, p in network.named_parameters() if p.requires_grad}
        self._optimizer = make_optimizer(options.optimizer, self._trained, options.weight_decay)
        self._norm: Tensor | None = None
        if not options.zero:  # DeepSpeed would clip by itself, but does not return the norm
            self._optimizer.register_step_pre_hook(self._clip)
        self._step = Step(network, table, options)
        # Buckets as large as the network: DeepSpeed's default takes 2 GB even for the smallest one.
        bucket = min(_BUCKET, sum(p.numel() for p in self._trained.values()))
        buckets = dict.fromkeys(("reduce_bucket_size", "allgather_bucket_size"), bucket)
        config = {
            "train_micro_batch_size_per_gpu": 1,  # a required field without effect here
            "gradient_accumulation_steps": 1,  # `step` itself marks the last micro-batch
            "gradient_clipping": options.clip if options.zero else 0.0,
            "zero_allow_untested_optimizer": True,
            "zero_optimization": {"stage": options.zero, **buckets},
            "steps_per_print": 10**9,
        }
        self._engine, *_ = deepspeed.initialize(
            model=self._step, optimizer=self._optimizer, dist_init_required=False, config=config
        )
        self.restore(None, 0)

    def step(self, work: Sequence[MicroBatch], totals: Totals, lr: float) -> Sums:
        """Take one optimizer step on this rank's ``work``; return the sums over its samples.

        Micro-batches may have any size. Every rank needs equally many, at least one, of the same kinds:
        labels, and instances to sample paths for.
        """
        for group in self._optimizer.param_groups:
            group["lr"] = lr
        self._engine.train()
        total: Sums = {}
        # Gradients accumulate over the micro-batches; the ranks reduce them once, after the last.
        for k, part in enumerate(work):
            self._engine.set_gradient_accumulation_boundary(k == len(work) - 1)
            loss, of_part = self._engine(self._loaded(part), totals, self._ranks)
            self._engine.backward(loss)
            for kind, sums in of_part.items():
                total[kind] = total[kind] + sums if kind in total else sums
        self._engine.step()
        return total

    def _loaded(self, part: MicroBatch) -> Batch | Sampled:
        if isinstance(part, Batch):
            return part.to(self._engine.device)
        assert self._costs is not None
        with self.options.precision(self._engine.device.type):
            return draw(self.network, self._step.table, self._costs, part)

    def gradient_norm(self) -> float:
        """Return the norm of the last step's gradient before clipping."""
        return float(self._engine.get_global_grad_norm() if self._norm is None else self._norm)

    def weights(self) -> Arrays:
        """Return every parameter of the network by name."""
        return {name: p.detach().cpu().numpy() for name, p in self.network.named_parameters()}

    def moments(self) -> Moments:
        """Return the optimizer's moments by parameter name; every rank has to call this."""
        moments: dict[str, Arrays] = {kind: {} for kind in MOMENTS}
        for name, parameter in self._trained.items():
            for kind in moments_of(self._optimizer, parameter):
                if self.options.zero:
                    moment = safe_get_full_optimizer_state(parameter, kind)
                else:
                    moment = self._optimizer.state[parameter][kind]
                moments[kind][name] = moment.detach().cpu().numpy()
        return Moments(**moments)

    @property
    def adam_step(self) -> int:
        """Number of optimizer steps in the moments."""
        return int(next(state["step"] for state in self._optimizer.state.values() if "step" in state))

    def _clip(self, *_: object) -> None:
        parameters = self._trained.values()
        self._norm = nn.utils.clip_grad_norm_(parameters, self.options.clip, foreach=True)

    def restore(self, moments: Moments | None, adam_step: int) -> None:
        """Resume with these moments, as after ``adam_step`` steps; None: zeros."""
        # All state exists before the first step, as ZeRO keeps it in flat partitions.
        for group in self._optimizer.param_groups:
            for parameter in group["params"]:
                kinds = moments_of(self._optimizer, parameter)
                state = {kind: torch.zeros_like(parameter) for kind in kinds}
                if kinds == MOMENTS:  # AdamW, whose bias correction needs the step
                    state["step"] = torch.tensor(float(adam_step), device=parameter.device)
                self._optimizer.state[parameter] = state
        if self.options.zero:
            # DeepSpeed would link parameters to their moments only in the first step (seen in 0.19).
            self._engine.optimizer._hp_optimizer_states_linked = False
            self._engine.optimizer._lazy_init_hp_params_optimizer_state()
        if moments is None:
            return
        for name, parameter in self._trained.items():
            for kind in moments_of(self._optimizer, parameter):
                value = torch.from_numpy(getattr(moments, kind)[name]).to(parameter.device)
                if self.options.zero:
                    safe_set_full_optimizer_state(parameter, value, kind)
                else:
                    self._optimizer.state[parameter][kind].copy_(value)
