"""Retention policy of `mcvrp gc`."""

from __future__ import annotations

from pydantic import Field

from mcvrp.tasks.support.spec import StrictSpec


class RetentionSpec(StrictSpec):
    """Retention of unreferenced artifacts."""

    keep_models: int = Field(
        3, ge=1, description="Number of latest versions to keep per model, in addition to those with an alias"
    )
    keep_checkpoints: int = Field(
        2,
        ge=1,
        description="Number of latest checkpoints to keep per unfinished phase; a finished phase keeps one",
    )
    keep_days: float = Field(
        30.0,
        gt=0,
        description="Retention in days of runs of removed models, nights without a result, unused parts "
        "of benchmarks and corrupt files",
    )
    solution_days: float | None = Field(
        None, gt=0, description="Retention of solutions in days (default: indefinitely)"
    )
    grace_hours: float = Field(24.0, ge=1, description="Grace period in hours: newer files are never removed")
