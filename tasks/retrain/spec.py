"""Specs of nights and rounds: how a challenger is made of the champion, compared with it, and promoted."""

from __future__ import annotations

from typing import ClassVar, Self

from pydantic import Field, model_validator

from mcvrp.storage.layout import NAME_PATTERN
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


class TrialSpec(StrictSpec):
    """Tune the champion on labels, compare the challenger with it, promote it or not.

    Nights and loops are named by a hash of their spec's JSON: fields keep their names and their order.
    """

    stage: ClassVar[str]  # as commands and presets call it

    model: str = Field("fm-mcvrp", pattern=NAME_PATTERN, description="The model whose champion is tuned")
    seed: int = Field(1, ge=0, description="Names the draw of labels, their order and trial instances")
    old: str | None = Field(
        None,
        pattern=NAME_PATTERN,
        description="Dataset that labels are drawn from, else what the first champion learned from",
    )

    batch: int = Field(64, ge=1, description="Samples of a step")
    passes: int = Field(1, ge=1, le=MOST_PASSES, description="How often the labels are gone through")
    lr: float = Field(3e-4, gt=0, description="Largest learning rate; it falls to 0")
    warmup: int = Field(20, ge=0, description="Steps until it is reached")
    ranks: int | None = Field(None, ge=1, description="Processes that share a step, else one a GPU or core")

    sizes: tuple[Size, ...] = Field(
        (), description="Sizes of the instances drawn to compare on; none takes three of the old labels'"
    )
    instances: int = Field(
        100, ge=2, le=MOST_CUSTOMERS, description="Instances of each size that a trial draws"
    )
    samples: int = Field(16, ge=1, le=MOST_SAMPLES, description="Samples of each model on each instance")
    p: KeptShare = 0.9
    alpha: float = Field(
        0.05, gt=0, lt=1, description="Level of a trial's paired tests that show who is better"
    )
    worst: float = Field(
        0.5, ge=0, description="Percent by which the mean cost of a size may grow at a promotion"
    )
    policy: PolicySpec | None = Field(
        None,
        exclude_if=unset,
        title="Policy",
        description="Tune by policy, labels beside it; on the labels' instances unless source says fresh",
    )

    @model_validator(mode="after")
    def _ascending(self) -> Self:
        if list(self.sizes) != sorted(set(self.sizes)):
            raise ValueError(f"sizes = {list(self.sizes)} must ascend")
        return self


class ImproveSpec(TrialSpec):
    """Rounds of improving: the champion beats labels where it can, is tuned on them, compared, promoted."""

    stage: ClassVar[str] = "improve"

    rounds: int = Field(3, ge=1, description="How often; more of them go on where the loop has ended")
    count: int = Field(2000, ge=1, description="Labels of each round, as many of each size")
    tries: int = Field(
        16, ge=1, le=MOST_SAMPLES, description="Samples of the champion for each label, each one polished"
    )


class NightlySpec(TrialSpec):
    """A night: take fresh routes, tune the champion on them and on old labels, compare, promote or not."""

    stage: ClassVar[str] = "nightly"

    incoming: str = Field("incoming", min_length=1, description="Folder of the store that gets route files")
    quiet_seconds: float = Field(
        30.0,
        ge=0,
        le=3600,
        description="Seconds for which a route file in a local folder has been left alone before it is taken",
    )
    held_out_every: int = Field(
        5, ge=2, description="One day in so many is kept to compare on, and never learned from"
    )
    replay: int = Field(4000, ge=1, description="Old labels in the mix, so that nothing is forgotten")
    fresh_share: float = Field(
        0.3, gt=0, lt=1, description="Share of fresh days in the mix, repeated to get there"
    )
    most_repeats: int = Field(20, ge=1, description="How often a fresh day is repeated at most")
