"""DeepSpeed around the network: a step on a global batch, and the state that a checkpoint needs.

Knows nothing of phases, stores or the clock. The weights, their gradients and Adam's moments
are fp32 in every ZeRO stage, so that the network's own parameters are what a checkpoint keeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import deepspeed
import torch
import torch.distributed
from deepspeed.utils import safe_get_full_optimizer_state, safe_set_full_optimizer_state
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from mcvrp.model.errors import McvrpError
from mcvrp.model.features import Batch, CityTable
from mcvrp.model.loss import losses
from mcvrp.model.network import FmMcvrp
from mcvrp.storage.training.checkpoints import Arrays, Moments
from mcvrp.tasks.train.memory import advice, is_out_of_memory, largest_that_fits

_BETAS, _EPS = (0.9, 0.999), 1e-8  # PyTorch's defaults; the paper names none
_BUCKET = 50_000_000  # elements; the default allocates 2 GB for the smallest network
_MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(frozen=True)
class EngineOptions:
    """Options of carrying out a step; field names as in `tasks.train.spec.TrainSpec`."""

    train_decoder: bool
    zero: int
    bf16: bool
    weight_decay: float
    clip: float
    compile: bool = False


class Step(nn.Module):
    """The network and its loss as one module, as DeepSpeed wants it."""

    def __init__(self, network: FmMcvrp, table: CityTable, options: EngineOptions) -> None:
        super().__init__()
        self.network, self.table, self.options = network, table, options

    def forward(self, batch: Batch, problem_scale: float, solution_scale: float) -> tuple[Tensor, Tensor]:
        """Return the scaled loss, and the sums of `Engine.step` for this micro-batch."""
        device = self.table.delta.device.type
        # PyTorch's flash attention for processors is slower in bf16 than the plain computation.
        slow = device == "cpu" and self.options.bf16
        kernels = sdpa_kernel(SDPBackend.MATH) if slow else nullcontext()
        with kernels, torch.autocast(device, torch.bfloat16, enabled=self.options.bf16):
            streams = losses(self.network, self.table, batch, self.options.train_decoder)
        loss = streams.problem.loss_sum * problem_scale
        sums = [streams.problem.loss_sum, streams.problem.correct]
        if streams.solution is not None:
            loss = loss + streams.solution.loss_sum * solution_scale
            sums += [streams.solution.loss_sum, streams.solution.correct]
        else:
            sums += [torch.zeros_like(loss)] * 2
        return loss, torch.stack([s.detach().double() for s in sums])


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
    """

    def __init__(self, network: FmMcvrp, table: CityTable, options: EngineOptions) -> None:
        device = table.delta.device
        self.network, self.options = network.to(device), options
        trained = set(network.parameters() if options.train_decoder else network.encoder_parameters())
        for parameter in network.parameters():
            parameter.requires_grad_(parameter in trained)
        if options.compile:
            for block in [*network.encoder, *network.decoder]:
                block.compile(dynamic=True)  # sizes differ from batch to batch
        self._trained = {name: p for name, p in network.named_parameters() if p.requires_grad}
        self._bucket = min(_BUCKET, sum(p.numel() for p in self._trained.values()))
        self._adam = torch.optim.AdamW(
            self._trained.values(),
            lr=0.0,
            betas=_BETAS,
            eps=_EPS,
            weight_decay=options.weight_decay,
            fused=True,  # one kernel for all parameters
        )
        self._norm: Tensor | None = None
        if not options.zero:  # DeepSpeed itself would clip, but not tell the norm
            self._adam.register_step_pre_hook(self._clip)
        self._step = Step(network, table, options)
        self._engine, *_ = deepspeed.initialize(
            model=self._step,
            optimizer=self._adam,
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
        self._set_adam(0, None)

    def step(self, batches: Sequence[Batch], problem_tokens: int, solution_tokens: int, lr: float) -> Tensor:
        """Take one step on this rank's ``batches``; tokens are counted over the global batch.

        Parameters
        ----------
        batches
            Micro-batches of any sizes; every rank needs equally many, and at least one.
        problem_tokens, solution_tokens
            Of the global batch: the loss is the mean over them.
        lr
            The step's learning rate.

        Returns
        -------
        Tensor
            Sums over this rank's samples, float64 ``(4,)``: loss and right answers of problem
            tokens, loss and right answers of solution tokens.

        Raises
        ------
        McvrpError
            If memory runs out, with the largest ``train.micro_tokens`` that fits. The engine
            cannot be used afterwards.
        """
        for group in self._adam.param_groups:
            group["lr"] = lr
        ranks = torch.distributed.get_world_size()  # DeepSpeed takes the mean of their gradients
        scales = ranks / problem_tokens, ranks / solution_tokens
        total = torch.zeros(4, dtype=torch.float64, device=self._engine.device)
        self._engine.train()
        # Gradients add up over the micro-batches; the ranks exchange them once, after the last.
        for k, batch in enumerate(batches):
            self._engine.set_gradient_accumulation_boundary(k == len(batches) - 1)
            total += self._accumulate(batch, *scales)
        self._engine.step()
        return total

    def _accumulate(self, batch: Batch, problem_scale: float, solution_scale: float) -> Tensor:
        """Add the gradient of ``batch``; at the last one of a step DeepSpeed brings the ranks' together."""
        try:
            loss, sums = self._engine(batch.to(self._engine.device), problem_scale, solution_scale)
            self._engine.backward(loss)
            return sums
        except Exception as error:
            if not is_out_of_memory(error):
                raise
        # Only here is the failed attempt's memory free: until then the exception holds on to it.
        for parameter in self._trained.values():
            parameter.grad = None
        raise McvrpError(advice(batch, largest_that_fits(batch, self._attempt)))

    def _attempt(self, batch: Batch) -> None:
        """Take the gradient of ``batch`` on this rank alone: other ranks may be waiting elsewhere."""
        trained = list(self._trained.values())
        # What a step holds besides: the gradient of the micro-batches before, and DeepSpeed's bucket.
        _held = [torch.zeros_like(parameter) for parameter in trained]
        if self.options.zero:
            _held.append(torch.zeros(self._bucket, device=self._engine.device))
        loss, _ = self._step(batch.to(self._engine.device), 1.0, 1.0)
        torch.autograd.grad(loss, trained, allow_unused=True)

    def gradient_norm(self) -> float:
        """Return the norm of the last step's gradient, before it was clipped."""
        return float(self._engine.get_global_grad_norm() if self._norm is None else self._norm)

    def weights(self) -> Arrays:
        """Return every parameter of the network by name."""
        return {name: p.detach().cpu().numpy() for name, p in self.network.named_parameters()}

    def moments(self) -> Moments:
        """Return Adam's moments by parameter name; every rank has to call this."""
        found: dict[str, Arrays] = {kind: {} for kind in _MOMENTS}
        for kind in _MOMENTS:
            for name, parameter in self._trained.items():
                if self.options.zero:
                    moment = safe_get_full_optimizer_state(parameter, kind)
                else:
                    moment = self._adam.state[parameter][kind]
                found[kind][name] = moment.detach().cpu().numpy()
        return Moments(**found)

    def restore(self, moments: Moments, adam_step: int) -> None:
        """Go on with these moments, as after ``adam_step`` steps."""
        self._set_adam(adam_step, moments)

    @property
    def adam_step(self) -> int:
        """The number of steps that the moments have seen."""
        return int(next(iter(self._adam.state.values()))["step"])

    def _clip(self, *_: object) -> None:
        parameters = self._trained.values()
        self._norm = nn.utils.clip_grad_norm_(parameters, self.options.clip, foreach=True)

    def _set_adam(self, adam_step: int, moments: Moments | None) -> None:
        """Fill Adam's state, which ZeRO keeps in flat partitions, before the first step."""
        for group in self._adam.param_groups:
            for parameter in group["params"]:
                self._adam.state[parameter] = {
                    "step": torch.tensor(float(adam_step), device=parameter.device),
                    **{kind: torch.zeros_like(parameter) for kind in _MOMENTS},
                }
        if self.options.zero:
            # The links from parameters to their moments are otherwise made by the first step.
            self._engine.optimizer._hp_optimizer_states_linked = False
            self._engine.optimizer._lazy_init_hp_params_optimizer_state()
        if moments is None:
            return
        for kind in _MOMENTS:
            for name, parameter in self._trained.items():
                value = torch.from_numpy(getattr(moments, kind)[name]).to(parameter.device)
                if self.options.zero:
                    safe_set_full_optimizer_state(parameter, value, kind)
                else:
                    self._adam.state[parameter][kind].copy_(value)
