"""What a training run is asked to do: network, phases, batches, and how the work is spread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from model.curriculum import Curriculum, Order
from model.errors import McvrpError
from model.schedules import Kind, Schedule
from storage.layout import NAME_PATTERN


class _Spec(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class NetworkSpec(_Spec):
    """The shape of the network; the defaults are the paper's. The number of classes is the city's."""

    dim: int = Field(768, ge=1)
    heads: int = Field(12, ge=1)
    encoder_layers: int = Field(12, ge=1)
    decoder_layers: int = Field(12, ge=1)
    ff: int = Field(3072, ge=1)
    dropout: float = Field(0.1, ge=0, lt=1)

    @model_validator(mode="after")
    def _divisible(self) -> Self:
        if self.dim % self.heads:
            raise ValueError(f"dim {self.dim} is not a multiple of heads {self.heads}")
        return self


class PhaseSpec(_Spec):
    """One phase of the curriculum (Table 2).

    The phase shows the sets Cr_first, ..., Cr_last, each once, ``passes`` times over; with
    ``trunc``, a random subset of that many rows of each size. ``schedule``, ``lr``,
    ``warmup`` and ``tail`` are those of `model.schedules.Schedule`.
    """

    name: str = Field(pattern=NAME_PATTERN)
    first: int = Field(ge=1)
    last: int = Field(ge=1)
    trunc: int | None = Field(None, ge=1)
    passes: int = Field(1, ge=1)
    trains: Literal["encoder", "both"] = "both"
    schedule: Kind = "constant"
    lr: float = Field(gt=0)
    warmup: int = Field(0, ge=0)
    tail: float = Field(0.0, ge=0, le=1)
    rotation: bool = False

    @model_validator(mode="after")
    def _meaningful(self) -> Self:
        if self.last < self.first:
            raise ValueError(f"first {self.first} is larger than last {self.last}")
        try:
            self.learning_rate()
        except McvrpError as error:
            raise ValueError(str(error)) from error
        return self

    def learning_rate(self) -> Schedule:
        """Return the phase's schedule."""
        return Schedule(self.schedule, self.lr, self.warmup, self.tail)


class TrainSpec(_Spec):
    """A training run: the fields below `seed` change the result, those below `ranks` do not.

    Parameters
    ----------
    run
        Names the run's checkpoints and metrics in the store.
    dataset
        The labels to learn from.
    model
        The name that the finished model gets.
    smallest
        The smallest size of every set of the curriculum.
    batch
        Samples of a step, over all ranks.
    order
        "paper" or "bucketed": see `model.curriculum.Curriculum`.
    precision
        "bf16" runs the network in bfloat16 by autocast; weights, gradients and moments stay fp32.
    ranks
        Processes that share a step; None takes one a GPU, or else one a core with enough to do.
    launcher
        "local" starts the ranks on this machine, "ray" on the Ray cluster.
    micro_batch, micro_tokens
        Samples, and problem and solution tokens with their padding, that a rank takes at once at
        most; None takes its whole share of the batch.
    compile
        Compile the network's blocks by torch.compile.
    zero
        DeepSpeed's ZeRO stage. Stage 3 would shard weights that 200 M parameters need not shard.
    max_hours
        Wall-clock hours after which a job ends with a checkpoint; the next goes on from it.
    restarts
        How often in a row the ranks are started again when one died and no checkpoint was added.
    checkpoint_every, log_every
        In steps.
    keep
        How many checkpoints of a phase are kept, besides the best.
    held_out, held_out_every
        Labels of the split "valid" that the network routes greedily every so many steps.
    diverged_after
        Steps after which a loss that stays far above what it was ends the run.
    """

    run: str = Field("train", pattern=NAME_PATTERN)
    dataset: str = Field(pattern=NAME_PATTERN)
    model: str = Field("fm-mcvrp", pattern=NAME_PATTERN)
    network: NetworkSpec = NetworkSpec()
    phases: tuple[PhaseSpec, ...] = Field(min_length=1)
    smallest: int = Field(20, ge=1)

    seed: int = Field(1, ge=0)
    batch: int = Field(256, ge=1)
    order: Order = "paper"
    precision: Literal["fp32", "bf16"] = "fp32"
    weight_decay: float = Field(0.01, ge=0)
    clip: float = Field(1.0, gt=0)

    ranks: int | None = Field(None, ge=1)
    launcher: Literal["local", "ray"] = "local"
    micro_batch: int | None = Field(None, ge=1)
    micro_tokens: int | None = Field(None, ge=1)
    compile: bool = False
    zero: Literal[0, 1, 2] = 0
    max_hours: float | None = Field(None, gt=0)
    restarts: int = Field(3, ge=0)
    checkpoint_every: int = Field(1000, ge=1)
    log_every: int = Field(10, ge=1)
    keep: int = Field(2, ge=1)
    held_out: str | None = Field(None, pattern=NAME_PATTERN)
    held_out_every: int = Field(1000, ge=1)
    diverged_after: int = Field(1000, ge=1)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = [phase.name for phase in self.phases]
        if len(set(names)) < len(names):
            raise ValueError(f"phases need names of their own, not {', '.join(names)}")
        for phase in self.phases:
            if phase.first < self.smallest:
                raise ValueError(
                    f"phase {phase.name} starts at size {phase.first}, smallest is {self.smallest}"
                )
        return self

    def phase(self, name: str) -> PhaseSpec:
        """Return the phase ``name``; McvrpError when there is none."""
        for phase in self.phases:
            if phase.name == name:
                return phase
        names = ", ".join(phase.name for phase in self.phases)
        raise McvrpError(f"there is no phase {name!r}: the run {self.run!r} has {names}")

    def before(self, name: str) -> PhaseSpec | None:
        """Return the phase whose weights the phase ``name`` starts from, None for the first."""
        place = self.phases.index(self.phase(name))
        return self.phases[place - 1] if place else None

    def sizes(self, name: str) -> range:
        """Return the sizes that the phase ``name`` trains on."""
        return range(self.smallest, self.phase(name).last + 1)

    def recipe(self, name: str) -> Mapping[str, Any]:
        """Return what decides the result of the phase ``name``, besides data and network."""
        shared = self.model_dump(
            mode="json",
            include={"smallest", "seed", "batch", "order", "precision", "weight_decay", "clip"},
        )
        return shared | self.phase(name).model_dump(mode="json", exclude={"name"})

    def curriculum(self, name: str, counts: Sequence[int], fingerprint: str = "") -> Curriculum:
        """Return the samples of the phase ``name`` on ``counts[k]`` rows of size ``smallest + k``.

        Without a fingerprint of the data the order is not the one trained on, samples and
        steps are.

        Raises
        ------
        McvrpError
            If data is missing, or is less than one batch.
        """
        phase = self.phase(name)
        data = (fingerprint, str(self.seed))
        return Curriculum(
            counts=tuple(counts),
            smallest=self.smallest,
            first=phase.first,
            last=phase.last,
            batch=self.batch,
            stream=(*data, name),
            trunc_stream=data,
            trunc=phase.trunc,
            passes=phase.passes,
            order=self.order,
        )
