"""Spec of a night: driven routes, fine-tuning, comparison, promotion."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from mcvrp.storage import layout
from mcvrp.storage.layout import NAME_PATTERN
from mcvrp.tasks.support.registry import InStore
from mcvrp.tasks.support.spec import (
    MOST_CUSTOMERS,
    MOST_PASSES,
    MOST_SAMPLES,
    KeptShare,
    Size,
    StrictSpec,
    unset,
)
from mcvrp.tasks.train.spec import PolicySpec


class NightlySpec(StrictSpec):
    """A night: ingest driven routes, fine-tune the champion on them and on old labels.

    Nights are named by a hash of their spec's JSON: fields keep their names and their order.
    """

    model: Annotated[str, InStore("models")] = Field(
        "fm-mcvrp", pattern=NAME_PATTERN, description="Model whose champion is fine-tuned"
    )
    seed: int = Field(
        1, ge=0, description="Random seed for the choice of labels, their order and the trial instances"
    )
    old: Annotated[str, InStore("labels")] | None = Field(
        None,
        pattern=NAME_PATTERN,
        description="Dataset to draw labels from (default: the training data of the first champion)",
    )

    optimizer: Literal["adamw", "muon"] = Field(
        "adamw",
        exclude_if=lambda optimizer: optimizer == "adamw",
        description="As of train: muon for the matrices of the blocks, or adamw for all parameters",
    )
    dropout: float | None = Field(
        None, ge=0, lt=1, exclude_if=unset, description="Dropout rate (default: the champion's)"
    )
    batch: int = Field(64, ge=1, description="Batch size (samples per step)")
    passes: int = Field(1, ge=1, le=MOST_PASSES, description="Number of passes over the labels (epochs)")
    lr: float = Field(3e-4, gt=0, description="Peak learning rate; it decays to 0")
    warmup: int = Field(20, ge=0, description="Warmup steps")
    ranks: int | None = Field(
        None, ge=1, description="Number of ranks (processes; default: one per GPU or core)"
    )

    sizes: tuple[Size, ...] = Field(
        (), description="Instance sizes of the trial instances (default: three sizes of the old labels)"
    )
    instances: int = Field(100, ge=2, le=MOST_CUSTOMERS, description="Number of trial instances per size")
    samples: int = Field(16, ge=1, le=MOST_SAMPLES, description="Samples per model and instance")
    p: KeptShare = 0.9
    alpha: float = Field(
        0.05, gt=0, lt=1, description="Significance level of the paired test for a promotion"
    )
    worst: float = Field(
        0.5,
        ge=0,
        description="Tolerated increase of a size's mean cost in percent; a larger one that is "
        "significant rules out a promotion",
    )
    policy: PolicySpec | None = Field(
        None,
        exclude_if=unset,
        title="Policy",
        description="Policy-gradient phase; source defaults to labels here",
    )

    incoming: str = Field(
        layout.INCOMING, min_length=1, description="Folder of the store for files of driven routes"
    )
    held_out_every: int = Field(
        5, ge=2, description="About one day in k, chosen by its date, is held out for the comparison"
    )
    replay: int = Field(
        4000,
        ge=1,
        description="Number of old labels to replay; where there are fewer, new instances are drawn like "
        "them, and routed by the champion's beam",
    )
    fresh_share: float = Field(
        0.3,
        gt=0,
        lt=1,
        description="Fraction of fresh days in the training mix, above 0: each is used at least once, and "
        "repeated to reach it",
    )
    most_repeats: int = Field(20, ge=1, description="Maximum number of repetitions of a fresh day")
    beam: int = Field(
        16,
        ge=0,
        le=MOST_SAMPLES,
        description="Width of the champion's beam search: the night learns its routes in place of driven "
        "routes and old labels that cost more; 0: it learns what was driven",
    )

    @model_validator(mode="after")
    def _ascending(self) -> Self:
        if list(self.sizes) != sorted(set(self.sizes)):
            raise ValueError(f"sizes = {list(self.sizes)} must ascend")
        return self
