"""DeepSpeed around the network: a step on a global batch, and the state that a checkpoint needs.

Knows nothing of phases, stores or the clock. The weights, their gradients and Adam's moments
are fp32 in every ZeRO stage, so that the network's own parameters are what a checkpoint keeps.
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

from mcvrp.model.errors import McvrpError
from mcvrp.model.features import Batch, CityTable, TravelCosts
from mcvrp.model.loss import losses
from mcvrp.model.network import FmMcvrp
from mcvrp.model.paths import Group
from mcvrp.model.policy import Sampled, draw, policy_loss
from mcvrp.storage.training.checkpoints import Arrays, Moments
from mcvrp.tasks.train.memory import advice, is_out_of_memory, largest_that_fits
from mcvrp.tasks.train.optimizer import MOMENTS, OptimizerName, make_optimizer, moments_of

_BUCKET = 50_000_000  # elements; the default allocates 2 GB for the smallest network


@dataclass(frozen=True)
class EngineOptions:
    """Options of carrying out a step; field names as in `tasks.train.spec.TrainSpec`."""

    train_decoder: bool
    zero: int
    bf16: bool
    weight_decay: float
    clip: float
    compile: bool = False
    optimizer: OptimizerName = "adamw"


@dataclass(frozen=True)
class Totals:
    """What a step's loss is a mean over, counted over the global batch.

    Parameters
    ----------
    problem_tokens, solution_tokens
        Of the labels.
    paths
        Drawn for instances.
    labels
        Weight of the labels' loss.
    risk
        As `model.policy.Sampled.advantages` takes it.
    """

    problem_tokens: int = 1
    solution_tokens: int = 1
    paths: int = 1
    labels: float = 1.0
    risk: float | None = None


class Sums(NamedTuple):
    """Sums over the samples of a step: of labels, and of instances whose paths were drawn.

    Parameters
    ----------
    problem_loss, problem_correct, solution_loss, solution_correct
        Cross-entropy and right answers, over the tokens of the labels.
    sampled, best
        Mean cost of an instance's paths, and the lowest, where the unit square has side 1.
    spread
        Standard deviation of an instance's costs, in % of their mean.
    tokens
        Nodes of the instances, and tokens of their paths.
    """

    problem_loss: float
    problem_correct: float
    solution_loss: float
    solution_correct: float
    sampled: float
    best: float
    spread: float
    tokens: float


class Step(nn.Module):
    """The network and its loss as one module, as DeepSpeed wants it."""

    def __init__(self, network: FmMcvrp, table: CityTable, options: EngineOptions) -> None:
        super().__init__()
        self.network, self.table, self.options = network, table, options

    def forward(self, batch: Batch | Sampled, totals: Totals, ranks: int) -> tuple[Tensor, Tensor]:
        """Return the scaled loss, and the sums of `Engine.step` for this micro-batch."""
        device = self.table.delta.device.type
        # PyTorch's flash attention for processors is slower in bf16 than the plain computation.
        slow = device == "cpu" and self.options.bf16
        kernels = sdpa_kernel(SDPBackend.MATH) if slow else nullcontext()
        with kernels, torch.autocast(device, torch.bfloat16, enabled=self.options.bf16):
            if isinstance(batch, Sampled):
                self.network.eval()  # dropout would take the gradient of another distribution than drew them
                loss = policy_loss(self.network, self.table, batch, totals.risk) * (ranks / totals.paths)
                self.network.train()
                return loss, _sums(batch)
            streams = losses(self.network, self.table, batch, self.options.train_decoder)
        loss = streams.problem.loss_sum * (totals.labels * ranks / totals.problem_tokens)
        sums = [streams.problem.loss_sum, streams.problem.correct]
        if streams.solution is not None:
            loss = loss + streams.solution.loss_sum * (totals.labels * ranks / totals.solution_tokens)
            sums += [streams.solution.loss_sum, streams.solution.correct]
        sums += [torch.zeros_like(loss)] * (len(Sums._fields) - len(sums))
        return loss, torch.stack([s.detach().double() for s in sums])


def _sums(sampled: Sampled) -> Tensor:
    costs = sampled.costs.double()
    spread = 100 * sampled.advantages().double().std(1)
    tokens = sampled.batch.lengths.sum() + (sampled.batch.path_lengths - 1).sum()
    drawn = torch.stack([costs.mean(1).sum(), costs.amin(1).sum(), spread.sum(), tokens.double()])
    return torch.cat([torch.zeros_like(drawn), drawn])  # nothing of the labels


class Engine:
    """Trains one phase's parameters; the rest of the network is frozen: no gradient, no decay.

    Parameters
    ----------
    network
        With the weights to start from.
    table
        The city, on the device that trains.
    options
        See `EngineOptions`.
    costs
        Of paths, where some are to be drawn.
    """

    def __init__(
        self,
        network: FmMcvrp,
        table: CityTable,
        options: EngineOptions,
        costs: TravelCosts | None = None,
    ) -> None:
        device = table.delta.device
        self.network, self.options, self._costs = network.to(device), options, costs
        self._ranks = torch.distributed.get_world_size()  # DeepSpeed takes the mean of their gradients
        trained = set(network.parameters() if options.train_decoder else network.encoder_parameters())
        for parameter in network.parameters():
            parameter.requires_grad_(parameter in trained)
        if options.compile:
            for block in [*network.encoder, *network.decoder]:
                block.compile(dynamic=True)  # sizes differ from batch to batch
        self._trained = {name: p for name, p in network.named_parameters() if p.requires_grad}
        self._bucket = min(_BUCKET, sum(p.numel() for p in self._trained.values()))
        self._optimizer = make_optimizer(options.optimizer, self._trained, options.weight_decay)
        self._norm: Tensor | None = None
        if not options.zero:  # DeepSpeed itself would clip, but not tell the norm
            self._optimizer.register_step_pre_hook(self._clip)
        self._step = Step(network, table, options)
        self._engine, *_ = deepspeed.initialize(
            model=self._step,
            optimizer=self._optimizer,
            dist_init_required=False,
            config={
                "train_micro_batch_size_per_gpu": 1,  # it wants a number, and does nothing with it
                "gradient_accumulation_steps": 1,  # `step` says itself which micro-batch is the last
                "gradient_clipping": options.clip if options.zero else 0.0,
                "zero_allow_untested_optimizer": True,
                "zero_optimization": {
                    "stage": options.zero,
                    "reduce_bucket_size": self._bucket,
                    "allgather_bucket_size": self._bucket,
                },
                "steps_per_print": 10**9,
            },
        )
        self._set_moments(0, None)

    def step(self, work: Sequence[Batch | Sequence[Group]], totals: Totals, lr: float) -> Tensor:
        """Take one step on this rank's ``work``; return `Sums` over its samples, float64 ``(8,)``.

        Parameters
        ----------
        work
            Micro-batches of any sizes, labels or instances to draw paths for; every rank needs equally
            many, and at least one.
        totals
            Of the global batch: the loss is the mean over them.
        lr
            The step's learning rate.

        Raises
        ------
        McvrpError
            If memory runs out, with the largest ``train.micro_tokens`` that fits. The engine
            cannot be used afterwards.
        """
        for group in self._optimizer.param_groups:
            group["lr"] = lr
        self._engine.train()
        total = torch.zeros(len(Sums._fields), dtype=torch.float64, device=self._engine.device)
        # Gradients add up over the micro-batches; the ranks exchange them once, after the last.
        for k, part in enumerate(work):
            self._engine.set_gradient_accumulation_boundary(k == len(work) - 1)
            total += self._accumulate(part, totals)
        self._engine.step()
        return total

    def _accumulate(self, part: Batch | Sequence[Group], totals: Totals) -> Tensor:
        """Add the gradient of ``part``; at the last one of a step DeepSpeed brings the ranks' together."""
        try:
            loss, sums = self._engine(self._loaded(part), totals, self._ranks)
            self._engine.backward(loss)
            return sums
        except Exception as error:
            if not is_out_of_memory(error):
                raise
        # Only here is the failed attempt's memory free: until then the exception holds on to it.
        for parameter in self._trained.values():
            parameter.grad = None
        raise McvrpError(advice(part, largest_that_fits(part, self._attempt)))

    def _loaded(self, part: Batch | Sequence[Group]) -> Batch | Sampled:
        """Return ``part`` on the device, with paths drawn where it is instances."""
        if isinstance(part, Batch):
            return part.to(self._engine.device)
        assert self._costs is not None
        with torch.autocast(self._engine.device.type, torch.bfloat16, enabled=self.options.bf16):
            return draw(self.network, self._step.table, self._costs, part)

    def _attempt(self, part: Batch | Sequence[Group]) -> None:
        """Take the gradient of ``part`` on this rank alone: other ranks may be waiting elsewhere."""
        trained = list(self._trained.values())
        # What a step holds besides: the gradient of the micro-batches before, and DeepSpeed's bucket.
        _held = [torch.zeros_like(parameter) for parameter in trained]
        if self.options.zero:
            _held.append(torch.zeros(self._bucket, device=self._engine.device))
        loss, _ = self._step(self._loaded(part), Totals(), 1)
        torch.autograd.grad(loss, trained, allow_unused=True)

    def gradient_norm(self) -> float:
        """Return the norm of the last step's gradient, before it was clipped."""
        return float(self._engine.get_global_grad_norm() if self._norm is None else self._norm)

    def weights(self) -> Arrays:
        """Return every parameter of the network by name."""
        return {name: p.detach().cpu().numpy() for name, p in self.network.named_parameters()}

    def moments(self) -> Moments:
        """Return the optimizer's moments by parameter name; every rank has to call this."""
        found: dict[str, Arrays] = {kind: {} for kind in MOMENTS}
        for name, parameter in self._trained.items():
            for kind in moments_of(self._optimizer, parameter):
                if self.options.zero:
                    moment = safe_get_full_optimizer_state(parameter, kind)
                else:
                    moment = self._optimizer.state[parameter][kind]
                found[kind][name] = moment.detach().cpu().numpy()
        return Moments(**found)

    def restore(self, moments: Moments, adam_step: int) -> None:
        """Go on with these moments, as after ``adam_step`` steps."""
        self._set_moments(adam_step, moments)

    @property
    def adam_step(self) -> int:
        """The number of steps that the moments have seen."""
        return int(next(state["step"] for state in self._optimizer.state.values() if "step" in state))

    def _clip(self, *_: object) -> None:
        parameters = self._trained.values()
        self._norm = nn.utils.clip_grad_norm_(parameters, self.options.clip, foreach=True)

    def _set_moments(self, adam_step: int, moments: Moments | None) -> None:
        """Fill the optimizer's state, which ZeRO keeps in flat partitions, before the first step."""
        for group in self._optimizer.param_groups:
            for parameter in group["params"]:
                kinds = moments_of(self._optimizer, parameter)
                state = {kind: torch.zeros_like(parameter) for kind in kinds}
                if kinds == MOMENTS:  # AdamW, which corrects its moments by their age
                    state["step"] = torch.tensor(float(adam_step), device=parameter.device)
                self._optimizer.state[parameter] = state
        if self.options.zero:
            # The links from parameters to their moments are otherwise made by the first step.
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
