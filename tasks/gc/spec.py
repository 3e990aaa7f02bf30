"""Retention policy of `mcvrp gc`."""

from __future__ import annotations

from pydantic import Field

from mcvrp.tasks.support.spec import StrictSpec


class RetentionSpec(StrictSpec):
    """Retention of unreferenced artifacts."""

    keep_models: int = Field(3, ge=1, description="Number of latest versions to keep per model")
    keep_days: float = Field(30.0, ge=1, description="Age in days below which nothing is removed")
