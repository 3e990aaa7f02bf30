"""What the improvement loop is asked for: rounds, labels looked at in each, samples that may beat them."""

from __future__ import annotations

from pydantic import Field

from tasks.trial_spec import TrialSpec


class ImproveSpec(TrialSpec):
    """Rounds of improving: the champion beats labels where it can, is tuned on them, compared, promoted."""

    rounds: int = Field(3, ge=1, description="How often; more of them go on where the loop has ended")
    count: int = Field(2000, ge=1, description="Labels of each round, as many of each size")
    tries: int = Field(16, ge=1, description="Samples of the champion for each label, each one polished")
