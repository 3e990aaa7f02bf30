"""What happens every night: which routes are taken, how the champion is tuned, when another is promoted."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from storage.layout import NAME_PATTERN


class NightlySpec(BaseModel):
    """A night: take fresh routes, tune the champion on them and on old labels, compare, promote or not."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = Field("fm-mcvrp", pattern=NAME_PATTERN, description="The model whose champion is tuned")
    incoming: str = Field("incoming", min_length=1, description="Folder of the store that gets route files")
    seed: int = Field(1, ge=0, description="Names the draw of old labels, their order and the test instances")

    held_out_every: int = Field(
        5, ge=2, description="One day in so many is kept to compare on, and never learned from"
    )
    old: str | None = Field(
        None,
        pattern=NAME_PATTERN,
        description="Dataset of the old labels, else what the first champion learned from",
    )
    replay: int = Field(4000, ge=1, description="Old labels in the mix, so that nothing is forgotten")
    fresh_share: float = Field(
        0.3, gt=0, lt=1, description="Share of fresh days in the mix, repeated to get there"
    )
    most_repeats: int = Field(20, ge=1, description="How often a fresh day is repeated at most")

    batch: int = Field(64, ge=1, description="Samples of a step")
    passes: int = Field(1, ge=1, description="How often the mix is gone through")
    lr: float = Field(3e-4, gt=0, description="Largest learning rate; it falls to 0")
    warmup: int = Field(20, ge=0, description="Steps until it is reached")
    ranks: int | None = Field(None, ge=1, description="Processes that share a step, else one a GPU or core")

    sizes: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        (), description="Sizes of the frozen test set; none takes three of the old labels'"
    )
    instances: int = Field(100, ge=2, description="Frozen test instances of each size")
    samples: int = Field(16, ge=1, description="Samples of each model on each instance")
    p: float = Field(0.9, gt=0, le=1, description="Share of the probability that nucleus sampling keeps")
    alpha: float = Field(0.05, gt=0, lt=1, description="Level of the paired test that shows who is better")
    worst: float = Field(
        0.5, ge=0, description="Percent by which the mean cost of a size may grow at a promotion"
    )

    @model_validator(mode="after")
    def _ascending(self) -> Self:
        if list(self.sizes) != sorted(set(self.sizes)) or (self.sizes and self.sizes[0] < 1):
            raise ValueError(f"sizes = {list(self.sizes)} must ascend from 1 or more")
        return self
