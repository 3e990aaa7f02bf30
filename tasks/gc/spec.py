"""Policy of `mcvrp gc`: how long what nobody needs is kept."""

from __future__ import annotations

from pydantic import Field

from mcvrp.tasks.support.spec import StrictSpec


class RetentionSpec(StrictSpec):
    """Retention of what nothing points to: how much is kept, and for how long."""

    keep_models: int = Field(
        3, ge=1, description="Newest versions of a model that are kept, besides those that an alias names"
    )
    keep_checkpoints: int = Field(
        2,
        ge=1,
        description="Newest checkpoints of an unfinished phase that are kept; of a finished one it is 1",
    )
    keep_days: float = Field(
        30.0,
        gt=0,
        description="Days for which runs of removed models, nights that came to none, unfinished benchmarks "
        "and corrupt files stay",
    )
    solution_days: float | None = Field(
        None, gt=0, description="Days for which solutions stay, else for good"
    )
    quarantine_days: float | None = Field(
        None, gt=0, description="Days for which quarantined rows of driven routes stay, else for good"
    )
    grace_hours: float = Field(
        24.0, ge=1, description="Hours within which whatever was written is left alone"
    )
