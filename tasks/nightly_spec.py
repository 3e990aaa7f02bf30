"""What happens every night: which routes are taken, and how they are mixed with old labels."""

from __future__ import annotations

from pydantic import Field

from tasks.trial_spec import TrialSpec


class NightlySpec(TrialSpec):
    """A night: take fresh routes, tune the champion on them and on old labels, compare, promote or not."""

    incoming: str = Field("incoming", min_length=1, description="Folder of the store that gets route files")
    settle: float = Field(
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
