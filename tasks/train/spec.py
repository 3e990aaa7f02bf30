"""Spec of a training run: network, phases, batches, and how the work is spread."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from mcvrp.model.curriculum import Curriculum, Order
from mcvrp.model.errors import McvrpError
from mcvrp.model.schedules import Kind, Schedule
from mcvrp.storage.layout import NAME_PATTERN
from mcvrp.tasks.support.spec import (
    MOST_CUSTOMERS,
    MOST_PASSES,
    MOST_SAMPLES,
    CapacityRange,
    DemandRange,
    HeadsSpec,
    OrdersSpec,
    StrictSpec,
    unset,
)

BASE_PHASE = "base"  # its finished checkpoint holds the weights that a run goes on from
_BASE = re.compile(rf"^({NAME_PATTERN.strip('^$')})@([1-9][0-9]*)$")


class NetworkSpec(HeadsSpec):
    """The shape of the network; the defaults are the paper's. The number of classes is the city's."""

    dim: int = Field(768, ge=1, description="Numbers that stand for a token")
    heads: int = Field(12, ge=1, description="Heads of each attention")
    encoder_layers: int = Field(12, ge=1, description="Layers that read the problem")
    decoder_layers: int = Field(12, ge=1, description="Layers that write the solution")
    ff: int = Field(3072, ge=1, description="Width of each feed-forward layer")
    dropout: float = Field(0.1, ge=0, lt=1, description="Share that is dropped while it trains")
    pointer: bool = Field(
        False,
        exclude_if=unset,
        description="Score nodes by their embeddings of the day, too, not by their weights of the city alone",
    )


class PolicySpec(OrdersSpec):
    """How a phase tunes by policy gradient (`model.policy`): what it draws at each step."""

    steps: int = Field(ge=1, description="Steps of the phase")
    instances: int = Field(32, ge=1, le=MOST_SAMPLES, description="Instances of a step, over all ranks")
    samples: int = Field(
        8, ge=2, le=MOST_SAMPLES, description="Paths drawn for each; their mean is what each is held against"
    )
    risk: float | None = Field(
        None,
        gt=0,
        description="Entropic risk as a share of the cost: the smaller it is, the more cheap samples count",
    )
    labels: float = Field(0.3, ge=0, description="Weight of the labels' loss beside it; 0 needs no labels")
    source: Literal["fresh", "labels"] = Field(
        "fresh", description="fresh: instances drawn anew at every step; labels: those of the dataset"
    )
    demand: DemandRange = None
    capacity: CapacityRange = None

    @property
    def needs_labels(self) -> bool:
        """True where it reads the dataset: for the labels' loss, or for its instances."""
        return self.labels > 0 or self.source == "labels"


class PhaseSpec(StrictSpec):
    """One phase of the curriculum (Table 2): the sets Cr_first, ..., Cr_last in turn.

    ``schedule``, ``lr``, ``warmup`` and ``tail`` are those of `model.schedules.Schedule`.
    """

    name: str = Field(pattern=NAME_PATTERN, description="Name of the phase in the store")
    first: int = Field(ge=1, le=MOST_CUSTOMERS, description="Most customers of an instance in the first set")
    last: int = Field(ge=1, le=MOST_CUSTOMERS, description="Most customers of an instance in the last set")
    trunc: int | None = Field(None, ge=1, description="Random labels of each size to train on, else all")
    passes: int = Field(1, ge=1, le=MOST_PASSES, description="How often the sets are gone through")
    trains: Literal["encoder", "both", "policy"] = Field(
        "both", description="encoder; both: the decoder too; policy: both, by what their samples cost"
    )
    schedule: Kind = Field("constant", description="Of the learning rate: t5, constant, cosine or knee")
    lr: float = Field(gt=0, description="Largest learning rate")
    warmup: int = Field(0, ge=0, description="Steps until the learning rate is reached; t5: until it falls")
    tail: float = Field(0.0, ge=0, le=1, description="Share of the steps over which knee falls to 0")
    rotation: bool = Field(False, description="Turn each sample about the depot by a random angle")
    shuffled: bool = Field(
        False,
        exclude_if=unset,
        description="Show each label's routes in a random order, the paper's last ablation, not by angle",
    )
    gaps: bool = Field(False, description="Leave out sizes that have no labels, else they are missing")
    policy: PolicySpec | None = Field(
        None, exclude_if=unset, title="Policy", description="Of a phase that trains by policy: what it draws"
    )

    @model_validator(mode="after")
    def _meaningful(self) -> Self:
        if (self.trains == "policy") != (self.policy is not None):
            wrong = "needs policy.steps" if self.policy is None else "has a field policy"
            raise ValueError(f"phase {self.name} trains {self.trains} and {wrong}")
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


class TrainSpec(StrictSpec):
    """A training run: the fields below `seed` change the result, those below `ranks` do not."""

    run: str = Field("train", pattern=NAME_PATTERN, description="Names checkpoints and metrics in the store")
    dataset: str = Field(pattern=NAME_PATTERN, description="The labels to learn from")
    model: str = Field("fm-mcvrp", pattern=NAME_PATTERN, description="Name that the finished model gets")
    base: str | None = Field(
        None, pattern=_BASE.pattern, description="Model to go on from: NAME@VERSION; else random weights"
    )
    network: NetworkSpec = Field(NetworkSpec(), title="Network", description="The shape of the network")
    phases: tuple[PhaseSpec, ...] = Field(min_length=1, description="What is trained, one after the other")
    smallest: int = Field(
        20,
        ge=1,
        le=MOST_CUSTOMERS,
        description="Fewest customers of an instance, in every set of the curriculum",
    )

    seed: int = Field(1, ge=0, description="Names the weights to begin with, the order and the dropout")
    batch: int = Field(256, ge=1, description="Samples of a step, over all ranks")
    order: Order = Field("paper", description="paper: random; bucketed: alike sizes together, less padding")
    precision: Literal["fp32", "bf16"] = Field(
        "fp32", description="bf16: the network by autocast; weights, gradients and moments stay fp32"
    )
    optimizer: Literal["adamw", "muon"] = Field(
        "adamw",
        exclude_if=lambda value: value == "adamw",  # as `unset`
        description="muon: for the matrices of the blocks, which takes fewer steps, and adamw for the rest",
    )
    weight_decay: float = Field(0.01, ge=0, description="Of the optimizer")
    clip: float = Field(1.0, gt=0, description="Norm that a longer gradient is cut down to")

    ranks: int | None = Field(
        None, ge=1, description="Processes that share a step, else one a GPU, or one a core with enough to do"
    )
    launcher: Literal["local", "ray"] = Field("local", description="Ranks on this machine, or on the cluster")
    micro_batch: int | None = Field(
        None, ge=1, description="Samples, or paths by policy, that a rank takes at once, else its share"
    )
    micro_tokens: int | None = Field(
        None, ge=1, description="Tokens that a rank takes at once, with padding; else its share of the batch"
    )
    compile: bool = Field(False, description="Compile the network's blocks by torch.compile")
    # Stage 3 would shard weights that 200 M parameters need not shard.
    zero: Literal[0, 1, 2] = Field(0, description="DeepSpeed's ZeRO stage")
    max_hours: float | None = Field(
        None, gt=0, description="Hours after which a job ends with a checkpoint; the next goes on from it"
    )
    restarts: int = Field(
        3, ge=0, description="How often in a row ranks that died without a new checkpoint are started again"
    )
    checkpoint_every: int = Field(1000, ge=1, description="Steps between two checkpoints")
    log_every: int = Field(10, ge=1, description="Steps between two rows of metrics")
    keep: int = Field(2, ge=1, description="Checkpoints of a phase that are kept, besides the best measured")
    held_out: str | None = Field(
        None, pattern=NAME_PATTERN, description="Labels of split valid that are routed to watch the training"
    )
    held_out_every: int = Field(1000, ge=1, description="Steps until the held-out set is routed again")
    held_out_samples: int = Field(
        16,
        ge=1,
        le=MOST_SAMPLES,
        description="Samples of each held-out instance whose best counts, in a phase by policy",
    )
    diverged_after: int = Field(1000, ge=1, description="Steps of a loss far above what it was that end it")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = [phase.name for phase in self.phases]
        if len(set(names)) < len(names):
            raise ValueError(f"phases need names of their own, not {', '.join(names)}")
        if self.base and BASE_PHASE in names:
            raise ValueError(
                f"a run with a base has its weights in phase {BASE_PHASE!r}: name yours differently"
            )
        if self.optimizer == "muon" and self.zero:
            raise ValueError(
                f"optimizer = muon works on whole matrices, which zero = {self.zero} cuts: give zero = 0"
            )
        decoder = self.base is not None  # there is one that has learnt something
        for phase in self.phases:
            if phase.trains == "policy" and not decoder:
                raise ValueError(
                    f"phase {phase.name} trains by policy, but no network has learnt to answer yet: "
                    "put a phase before it that trains both, or name a model in train.base"
                )
            decoder |= phase.trains == "both"
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
        raise McvrpError(f"there is no phase {name!r}: the run {self.run!r} has {names}; name one of these")

    def before(self, name: str) -> PhaseSpec | None:
        """Return the phase whose weights the phase ``name`` starts from, None for the first."""
        place = self.phases.index(self.phase(name))
        return self.phases[place - 1] if place else None

    @property
    def base_version(self) -> tuple[str, int] | None:
        """Name and version of the model to go on from, None for random weights."""
        match = _BASE.fullmatch(self.base or "")
        return (match[1], int(match[2])) if match else None

    def sizes(self, name: str) -> range:
        """Return the sizes that the phase ``name`` trains on."""
        return range(self.smallest, self.phase(name).last + 1)

    def recipe(self, name: str) -> Mapping[str, Any]:
        """Return what decides the result of the phase ``name``, besides data and network."""
        shared = self.model_dump(
            mode="json",
            include={"smallest", "seed", "batch", "order", "precision", "optimizer", "weight_decay", "clip"},
        )
        own = self.phase(name).model_dump(mode="json", exclude={"name", "gaps"})
        policy = own.pop("policy", {})
        return shared | own | {f"policy.{field}": value for field, value in policy.items()}

    def needs_labels(self, name: str) -> bool:
        """Return whether the phase ``name`` reads the dataset."""
        policy = self.phase(name).policy
        return policy is None or policy.needs_labels

    def steps(self, name: str, counts: Sequence[int]) -> int:
        """Return the steps of the phase ``name`` on ``counts[k]`` rows of size ``smallest + k``."""
        policy = self.phase(name).policy
        return policy.steps if policy else self.curriculum(name, counts).steps

    def samples(self, name: str, counts: Sequence[int]) -> int:
        """Return the labels that the phase ``name`` shows, or the instances that it draws paths for."""
        policy = self.phase(name).policy
        return policy.steps * policy.instances if policy else self.curriculum(name, counts).samples

    def curriculum(self, name: str, counts: Sequence[int], fingerprint: str = "") -> Curriculum:
        """Return the samples of the phase ``name`` on ``counts[k]`` rows of size ``smallest + k``.

        Without a fingerprint of the data the order is not the one trained on, samples and
        steps are.

        Raises
        ------
        McvrpError
            If data is missing, or is less than one batch.
        """
        return self._curriculum(self.phase(name), counts, fingerprint, self.batch, name)

    def policy_instances(self, name: str, counts: Sequence[int], fingerprint: str) -> Curriculum:
        """Return the labelled instances that the phase ``name`` draws paths for, as `curriculum` does."""
        phase = self.phase(name)
        assert phase.policy is not None
        return self._curriculum(phase, counts, fingerprint, phase.policy.instances, name, "policy")

    def _curriculum(
        self, phase: PhaseSpec, counts: Sequence[int], fingerprint: str, batch: int, *stream: str
    ) -> Curriculum:
        data = (fingerprint, str(self.seed))
        once = Curriculum(
            counts=tuple(counts),
            smallest=self.smallest,
            first=phase.first,
            last=phase.last,
            batch=batch,
            stream=(*data, *stream),
            trunc_stream=data,
            trunc=phase.trunc,
            passes=1 if phase.policy else phase.passes,
            order=self.order,
        )
        if phase.policy is None:
            return once
        # As many passes as its steps ask for: how long it takes is said in steps.
        return replace(once, passes=-(-phase.policy.steps * batch // once.samples))
