"""DeepSpeed around the network: a step on a global batch, and the state that a checkpoint needs.

Knows nothing of phases, stores or the clock. The weights, their gradients and Adam's moments
are fp32 in every ZeRO stage, so that the network's own parameters are what a checkpoint keeps.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import deepspeed
import torch
import torch.distributed
from deepspeed.utils import safe_get_full_optimizer_state, safe_set_full_optimizer_state
from torch import Tensor, nn

from model.features import Batch, CityTable
from model.loss import losses
from model.network import FmMcvrp
from storage.checkpoints import Arrays, Moments

_BETAS, _EPS = (0.9, 0.999), 1e-8  # PyTorch's defaults; the paper names none
_BUCKET = 50_000_000  # elements; the default allocates 2 GB for the smallest network
_MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(frozen=True)
class EngineOptions:
    """How a step is carried out; field names as in `tasks.train_spec.TrainSpec`."""

    micro_batch: int
    pieces: int  # micro-batches of a rank in one step
    train_decoder: bool
    zero: int
    bf16: bool
    weight_decay: float
    clip: float


class Step(nn.Module):
    """The network and its loss as one module, as DeepSpeed wants it."""

    def __init__(self, network: FmMcvrp, table: CityTable, options: EngineOptions) -> None:
        super().__init__()
        self.network, self.table, self.options = network, table, options

    def forward(self, batch: Batch, problem_scale: float, solution_scale: float) -> tuple[Tensor, Tensor]:
        """Return the scaled loss, and the sums of `Engine.step` for this micro-batch."""
        with torch.autocast(self.table.delta.device.type, torch.bfloat16, enabled=self.options.bf16):
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
        self._trained = {name: p for name, p in network.named_parameters() if p.requires_grad}
        self._adam = torch.optim.AdamW(
            self._trained.values(),
            lr=0.0,
            betas=_BETAS,
            eps=_EPS,
            weight_decay=options.weight_decay,
            fused=True,
        )
        self._norm: Tensor | None = None
        if not options.zero:  # DeepSpeed itself would clip, but not tell the norm
            self._adam.register_step_pre_hook(self._clip)
        self._engine, *_ = deepspeed.initialize(
            model=Step(network, table, options),
            optimizer=self._adam,
            dist_init_required=False,
            config={
                "train_micro_batch_size_per_gpu": options.micro_batch,
                "gradient_accumulation_steps": options.pieces,
                "gradient_clipping": options.clip if options.zero else 0.0,
                "zero_allow_untested_optimizer": True,
                "zero_optimization": {
                    "stage": options.zero,
                    "reduce_bucket_size": _BUCKET,
                    "allgather_bucket_size": _BUCKET,
                },
                "steps_per_print": 10**9,
            },
        )
        self._set_adam(0, None)

    def step(self, batches: Iterable[Batch], problem_tokens: int, solution_tokens: int, lr: float) -> Tensor:
        """Take one step on this rank's ``batches``; tokens are counted over the global batch.

        Returns
        -------
        Tensor
            Sums over this rank's samples, float64 ``(4,)``: loss and right answers of problem
            tokens, loss and right answers of solution tokens.
        """
        for group in self._adam.param_groups:
            group["lr"] = lr
        # DeepSpeed takes the mean over ranks and micro-batches. Its scale_wrt_gas=False does not
        # do what it says: the gradient is then divided by a hook on the loss.
        pieces = torch.distributed.get_world_size() * self.options.pieces
        total = torch.zeros(4, dtype=torch.float64, device=self._engine.device)
        self._engine.train()
        for batch in batches:
            scales = pieces / problem_tokens, pieces / solution_tokens
            loss, sums = self._engine(batch.to(self._engine.device), *scales)
            self._engine.backward(loss)
            self._engine.step()
            total += sums
        return total

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
        """How many steps the moments have seen."""
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
