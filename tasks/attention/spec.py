"""Spec of the training of attention models: sizes, network, epochs, baseline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from mcvrp.model.instances import Range
from mcvrp.storage.layout import NAME_PATTERN
from mcvrp.tasks.support.spec import MOST_CUSTOMERS, MOST_SAMPLES, HeadsSpec, OrdersSpec, Size

# Batch sizes of the paper by the largest instance size that uses them ("Retraining AM").
PAPER_BATCHES = ((200, 512), (400, 128), (600, 64))
_LARGEST_BATCH = 32  # for larger sizes

Count = Annotated[int, Field(ge=1)]


class AttentionNetworkSpec(HeadsSpec):
    """Architecture of the attention model; the defaults are its authors'."""

    dim: Count = Field(128, description="Embedding dimension")
    heads: Count = Field(8, description="Number of attention heads")
    layers: Count = Field(3, description="Number of encoder layers")
    ff: Count = Field(512, description="Dimension of the feed-forward layers")


class AttentionSpec(OrdersSpec):
    """Attention models, one per size, by REINFORCE; the defaults are the paper's ("Retraining AM")."""

    model: str | None = Field(
        None, pattern=NAME_PATTERN, description="Name of the models in the store (default: the city's name)"
    )
    sizes: tuple[Size, ...] | None = Field(None, description="Instance sizes (default: the benchmark's)")
    demand: Range | None = Field(
        None, description="Range of demands (default: the benchmark's, the city's, otherwise 1–9)"
    )
    capacity: Range | None = Field(
        None, description="Range of capacities (default: the benchmark's, the city's, otherwise Table 1)"
    )
    network: AttentionNetworkSpec = Field(AttentionNetworkSpec(), title="Network", description="Architecture")

    seed: int = Field(1, ge=0, description="Random seed for initialization, instances and samples")
    epochs: Count = Field(100, description="Number of epochs")
    epoch_instances: Count = Field(1_280_000, description="Instances per epoch, all new")
    batch: Size | None = Field(
        None, description="Batch size in instances (default: 512 up to 200 customers, then 128, 64, 32)"
    )
    paths: int = Field(1, ge=1, le=MOST_SAMPLES, description="Samples per instance and step")
    lr: float = Field(1e-4, gt=0, description="Learning rate (Adam)")
    lr_decay: float = Field(1.0, gt=0, le=1, description="Learning-rate decay factor per epoch")
    clip: float = Field(1.0, gt=0, description="Maximum gradient norm (clipping)")
    warmup_epochs: int = Field(1, ge=0, description="Epochs with the exponential moving average as baseline")
    evaluation: int = Field(
        10_000, ge=2, le=MOST_CUSTOMERS, description="Instances to evaluate the baseline on after each epoch"
    )
    alpha: float = Field(0.05, gt=0, lt=1, description="Significance level of the t-test of the baseline")

    checkpoint_seconds: float = Field(60.0, ge=0, description="Checkpoint interval in seconds")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.sizes is not None and (not self.sizes or len(set(self.sizes)) < len(self.sizes)):
            raise ValueError(f"sizes = {list(self.sizes)} must not be empty or have duplicates")
        largest = max((self.batch_of(n) for n in self.sizes or ()), default=self.batch or 1)
        if self.epoch_instances < largest:
            raise ValueError(f"epoch_instances {self.epoch_instances} is less than a batch ({largest})")
        return self

    def batch_of(self, n: int) -> int:
        if self.batch is not None:
            return self.batch
        return next((batch for last, batch in PAPER_BATCHES if n <= last), _LARGEST_BATCH)

    def batches(self, n: int) -> int:
        """Return the steps per epoch for ``n`` customers."""
        return self.epoch_instances // self.batch_of(n)

    def steps(self, n: int) -> int:
        """Return the steps of all epochs for ``n`` customers."""
        return self.epochs * self.batches(n)

    def recipe(self, n: int) -> Mapping[str, Any]:
        """Return the settings that decide the model for ``n`` customers, besides the city."""
        left_out = {"model", "sizes", "checkpoint_seconds"}
        return self.model_dump(mode="json", exclude=left_out) | {"batch": self.batch_of(n)}

    def filled(
        self, model: str, sizes: tuple[int, ...], demand: Range | None = None, capacity: Range | None = None
    ) -> AttentionSpec:
        """Return the spec with these defaults for a missing name, sizes and ranges."""
        values: dict[str, Any] = {
            "model": self.model or model,
            "sizes": self.sizes or sizes,
            "demand": self.demand or demand,
            "capacity": self.capacity or capacity,
        }
        return self.model_copy(update=values)
