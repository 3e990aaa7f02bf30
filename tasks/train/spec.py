"""Spec of a training run: network, phases, optimization, ranks and intervals."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from mcvrp.model.curriculum import Curriculum, Order
from mcvrp.model.errors import McvrpError
from mcvrp.model.schedules import Kind, Schedule
from mcvrp.storage.layout import NAME_PATTERN
from mcvrp.tasks.support.registry import InStore
from mcvrp.tasks.support.spec import (
    MOST_PASSES,
    MOST_SAMPLES,
    CapacityRange,
    DemandRange,
    HeadsSpec,
    OrdersSpec,
    Size,
    StrictSpec,
    unset,
)

BASE = re.compile(rf"^({NAME_PATTERN.strip('^$')})@([1-9][0-9]*)$")

Name = Annotated[str, Field(pattern=NAME_PATTERN)]
Count = Annotated[int, Field(ge=1)]
Samples = Annotated[int, Field(ge=1, le=MOST_SAMPLES)]


class NetworkSpec(HeadsSpec):
    """Network architecture; the defaults are the paper's. The number of classes is the city's."""

    dim: Count = Field(768, description="Embedding dimension (d_model)")
    heads: Count = Field(12, description="Number of attention heads")
    encoder_layers: Count = Field(12, description="Number of encoder layers")
    decoder_layers: Count = Field(12, description="Number of decoder layers")
    ff: Count = Field(3072, description="Dimension of the feed-forward layers")
    dropout: float = Field(0.1, ge=0, lt=1, description="Dropout rate")
    pointer: bool = Field(
        False,
        exclude_if=unset,
        description="Pointer output: score nodes by their encoder embeddings as well as the output weights",
    )
    landmarks: int = Field(
        0,
        ge=0,
        le=64,
        exclude_if=unset,
        description="Number of landmarks whose travel costs are node features (cities with a cost matrix)",
    )


class PolicySpec(OrdersSpec):
    """Settings of a policy-gradient phase (`model.policy`): what it samples at each step."""

    steps: int = Field(ge=1, le=10_000_000, description="Steps of the phase")
    instances: Samples = Field(32, description="Instances per step (all ranks)")
    samples: int = Field(
        8, ge=2, le=MOST_SAMPLES, description="Samples per instance; their mean cost is the baseline"
    )
    risk: float | None = Field(
        None,
        gt=0,
        description="Entropic risk relative to the cost; smaller favours the best samples (default: mean)",
    )
    labels: float = Field(0.3, ge=0, description="Weight of the supervised (label) loss; 0 needs no labels")
    source: Literal["fresh", "labels"] = Field(
        "fresh", description="fresh: new instances at every step; labels: instances of the dataset"
    )
    demand: DemandRange = None
    capacity: CapacityRange = None


class PhaseSpec(StrictSpec):
    """One phase of the curriculum (Table 2): the sets Cr_first, ..., Cr_last in turn.

    For ``schedule``, ``lr``, ``warmup`` and ``tail`` see `model.schedules.Schedule`.
    """

    name: Name = Field(description="Name of the phase in the store")
    first: Size = Field(description="Largest instance size (customers) in the first set")
    last: Size = Field(description="Largest instance size (customers) in the last set")
    trunc: Count | None = Field(None, description="Number of labels per size, a random subset (default: all)")
    passes: int = Field(1, ge=1, le=MOST_PASSES, description="Number of passes over the sets (epochs)")
    trains: Literal["encoder", "both", "policy"] = Field(
        "both", description="encoder; both: encoder and decoder; policy: both, by policy gradient (REINFORCE)"
    )
    schedule: Kind = Field(
        "constant",
        description="Learning-rate schedule: t5 (inverse square root), constant, cosine, "
        "knee (warmup–stable–decay)",
    )
    lr: float = Field(gt=0, description="Peak learning rate")
    warmup: int = Field(0, ge=0, description="Warmup steps; t5: steps at a constant rate before the decay")
    tail: float = Field(0.0, ge=0, le=1, description="Fraction of the steps in which knee decays to 0")
    rotation: bool = Field(False, description="Rotate each sample about the depot by a random angle")
    shuffled: bool = Field(
        False,
        exclude_if=unset,
        description="Present the routes of each label in random order (last appendix of the paper)",
    )
    gaps: bool = Field(
        False, description="Train on each size's labels before its first missing one, instead of reporting it"
    )
    policy: PolicySpec | None = Field(
        None, exclude_if=unset, title="Policy", description="Settings of a policy-gradient phase"
    )

    @model_validator(mode="after")
    def _meaningful(self) -> Self:
        if (self.trains == "policy") != (self.policy is not None):
            conflict = "needs policy.steps" if self.policy is None else "has a field policy"
            raise ValueError(f"phase {self.name} trains {self.trains} and {conflict}")
        if self.last < self.first:
            raise ValueError(f"first {self.first} is larger than last {self.last}")
        try:
            self.learning_rate()
        except McvrpError as error:
            raise ValueError(str(error)) from error
        return self

    def learning_rate(self) -> Schedule:
        """Return the learning-rate schedule."""
        return Schedule(self.schedule, self.lr, self.warmup, self.tail)


class TrainSpec(StrictSpec):
    """A training run: the fields below `seed` change the result, those below `ranks` do not."""

    run: Name = Field("train", description="Name of the training run in the store")
    dataset: Annotated[Name, InStore("labels")] = Field(description="Dataset to train on")
    model: Name = Field("fm-mcvrp", description="Name of the trained model")
    base: str | None = Field(
        None,
        pattern=BASE.pattern,
        description="Model to fine-tune, NAME@VERSION (default: random initialization)",
    )
    network: NetworkSpec = Field(NetworkSpec(), title="Network", description="Network architecture")
    phases: tuple[PhaseSpec, ...] = Field(min_length=1, description="Phases of the curriculum, in order")
    smallest: Size = Field(20, description="Smallest instance size (customers) in every set")

    seed: int = Field(1, ge=0, description="Random seed for initialization, sample order and dropout")
    batch: Count = Field(256, description="Global batch size (samples per step, all ranks)")
    order: Order = Field(
        "paper", description="paper: random order; bucketed: instances of similar size together, less padding"
    )
    precision: Literal["fp32", "bf16"] = Field(
        "fp32", description="bf16: autocast of the network; weights, gradients and optimizer state stay fp32"
    )
    optimizer: Literal["adamw", "muon"] = Field(
        "adamw",
        exclude_if=lambda value: value == "adamw",  # as `unset`
        description="muon: Muon for the matrices of the blocks, AdamW for all other parameters",
    )
    weight_decay: float = Field(0.01, ge=0, description="Weight decay")
    clip: float = Field(1.0, gt=0, description="Maximum gradient norm (clipping)")

    ranks: Count | None = Field(
        None,
        description="Number of ranks (processes; default: one per GPU, or per core for large batches; "
        "required on a cluster)",
    )
    launcher: Literal["local", "ray"] = Field("local", description="local: this machine; ray: the cluster")
    micro_tokens: Count | None = Field(
        None,
        description="Micro-batch size per rank in tokens, padding included (default: its share of the batch)",
    )
    compile: bool = Field(False, description="Compile the network's blocks with torch.compile")
    # Stage 3 would shard weights that 200 M parameters need not shard.
    zero: Literal[0, 1, 2] = Field(0, description="ZeRO stage of DeepSpeed")
    restarts: int = Field(3, ge=0, description="Maximum restarts in a row without a new checkpoint")
    checkpoint_every: Count = Field(1000, description="Checkpoint interval in steps")
    log_every: Count = Field(10, description="Logging interval in steps")
    keep: Count = Field(2, description="Recent checkpoints to keep per phase, in addition to the best")
    held_out: Name | None = Field(None, description="Held-out dataset (split valid) for validation")
    held_out_every: Count = Field(1000, description="Validation interval in steps")
    held_out_samples: Samples = Field(16, description="Samples per held-out instance (policy gradient)")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = [phase.name for phase in self.phases]
        if len(set(names)) < len(names):
            raise ValueError(f"names of phases must be unique, not {', '.join(names)}")
        if self.optimizer == "muon" and self.zero:
            raise ValueError(
                f"optimizer = muon needs whole matrices, which zero = {self.zero} partitions: use zero = 0"
            )
        decoder = self.base is not None  # whether the decoder has been trained
        for phase in self.phases:
            if phase.trains == "policy" and not decoder:
                raise ValueError(
                    f"phase {phase.name} trains by policy gradient, but the decoder is untrained: "
                    "add a phase before it that trains both, or name a model in train.base"
                )
            decoder |= phase.trains == "both"
            if phase.first < self.smallest:
                raise ValueError(
                    f"phase {phase.name} starts at size {phase.first}, train.smallest is {self.smallest}"
                )
        return self

    def phase(self, name: str) -> PhaseSpec:
        """Return the phase ``name``; McvrpError if the run has no such phase."""
        phases = {phase.name: phase for phase in self.phases}
        if name not in phases:
            names = ", ".join(phases)
            raise McvrpError(f"no phase {name!r} in run {self.run!r}, which has {names}: name one of these")
        return phases[name]

    @property
    def base_version(self) -> tuple[str, int] | None:
        """Name and version of the model to fine-tune, None for random weights."""
        match = BASE.fullmatch(self.base or "")
        return (match[1], int(match[2])) if match else None

    def sizes(self, name: str) -> range:
        """Return the sizes that the phase ``name`` trains on."""
        return range(self.smallest, self.phase(name).last + 1)

    def recipe(self, name: str) -> Mapping[str, Any]:
        """Return the settings that decide the result of the phase ``name``, besides data and network."""
        shared = self.model_dump(
            mode="json",
            include={"smallest", "seed", "batch", "order", "precision", "optimizer", "weight_decay", "clip"},
        )
        own = self.phase(name).model_dump(mode="json", exclude={"name", "gaps"})
        policy = own.pop("policy", {})
        return shared | own | {f"policy.{field}": value for field, value in policy.items()}

    def needs_labels(self, name: str) -> bool:
        """Return whether the phase ``name`` reads the dataset, for its loss or for its instances."""
        policy = self.phase(name).policy
        return policy is None or policy.labels > 0 or policy.source == "labels"

    def steps(self, name: str, counts: Sequence[int]) -> int:
        """Return the steps of the phase ``name`` on ``counts[k]`` rows of size ``smallest + k``."""
        policy = self.phase(name).policy
        return policy.steps if policy else self.curriculum(name, counts).steps

    def samples(self, name: str, counts: Sequence[int]) -> int:
        """Return the labels that the phase ``name`` trains on, or instances that it samples paths for."""
        policy = self.phase(name).policy
        return policy.steps * policy.instances if policy else self.curriculum(name, counts).samples

    def curriculum(
        self, name: str, counts: Sequence[int], fingerprint: str = "", *, paths: bool = False
    ) -> Curriculum:
        """Return the samples of the phase ``name`` on ``counts[k]`` rows of size ``smallest + k``.

        The order of samples depends on the fingerprint of the data; their number and the steps do not.
        With ``paths``, they are the instances that a policy-gradient phase samples paths for. McvrpError
        if there are no labels, or less than one batch of them in a phase that does not repeat them.
        """
        phase, data = self.phase(name), (fingerprint, str(self.seed))
        sampled = phase.policy if paths else None
        batch, stream = (sampled.instances, (name, "policy")) if sampled else (self.batch, (name,))
        single = Curriculum(
            counts=tuple(counts),
            smallest=self.smallest,
            first=phase.first,
            last=phase.last,
            batch=1 if phase.policy else batch,  # a batch of such a phase may be more than one pass
            stream=(*data, *stream),
            trunc_stream=data,
            trunc=phase.trunc,
            passes=1 if phase.policy else phase.passes,
            order=self.order,
        )
        if phase.policy is None:
            return single
        # As many passes as its steps need: a policy-gradient phase has steps instead of passes.
        return replace(single, batch=batch, passes=-(-phase.policy.steps * batch // single.samples))
