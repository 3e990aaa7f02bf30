"""Spec of the training of attention models: sizes, network, epochs, baseline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import Field, model_validator

from mcvrp.model.instances import Range
from mcvrp.storage.layout import NAME_PATTERN
from mcvrp.tasks.support.spec import MOST_CUSTOMERS, MOST_SAMPLES, HeadsSpec, OrdersSpec, Size

# Batches of the paper, by the largest size that they are for ("Retraining AM").
PAPER_BATCHES = ((200, 512), (400, 128), (600, 64))
_LARGEST_BATCH = 32  # of larger sizes


class AttentionNetworkSpec(HeadsSpec):
    """The shape of the attention model; the defaults are its authors'."""

    dim: int = Field(128, ge=1, description="Numbers that stand for a node")
    heads: int = Field(8, ge=1, description="Heads of each attention")
    layers: int = Field(3, ge=1, description="Layers of the encoder")
    ff: int = Field(512, ge=1, description="Width of each feed-forward layer")


class AttentionSpec(OrdersSpec):
    """Attention models, one a size, by REINFORCE; the defaults are the paper's ("Retraining AM")."""

    model: str | None = Field(
        None, pattern=NAME_PATTERN, description="Name of the models in the store, else the city's"
    )
    sizes: tuple[Size, ...] | None = Field(None, description="Numbers of customers, else the benchmark's")
    demand: Range | None = Field(
        None, description="Smallest and largest demand, else the benchmark's, the city's own, or 1 to 9"
    )
    capacity: Range | None = Field(
        None, description="Smallest and largest capacity, else the benchmark's, the city's own, or Table 1"
    )
    network: AttentionNetworkSpec = Field(
        AttentionNetworkSpec(), title="Network", description="The shape of the network"
    )

    seed: int = Field(1, ge=0, description="Names the weights to begin with, the instances and the draws")
    epochs: int = Field(100, ge=1, description="After each, the baseline may be replaced")
    epoch_instances: int = Field(1_280_000, ge=1, description="Instances of an epoch, none seen twice")
    batch: int | None = Field(
        None,
        ge=1,
        le=MOST_CUSTOMERS,
        description="Instances of a step; else 512 up to 200 customers, 128, 64, 32 beyond",
    )
    paths: int = Field(1, ge=1, le=MOST_SAMPLES, description="Solutions drawn of each instance of a step")
    lr: float = Field(1e-4, gt=0, description="Learning rate of Adam")
    lr_decay: float = Field(1.0, gt=0, le=1, description="What each epoch multiplies the learning rate by")
    clip: float = Field(1.0, gt=0, description="Norm that a longer gradient is cut down to")
    warmup_epochs: int = Field(1, ge=0, description="Epochs with the exponential mean as the baseline")
    evaluation: int = Field(
        10_000,
        ge=2,
        le=MOST_CUSTOMERS,
        description="Instances that decide at an epoch's end whether the baseline is replaced",
    )
    alpha: float = Field(0.05, gt=0, lt=1, description="Level of the t-test that decides it")

    diverged_factor: float = Field(
        1.1, gt=1, description="A mean greedy cost so many times the best so far is a bad epoch"
    )
    diverged_after: int = Field(3, ge=1, description="Bad epochs in a row that end the training")
    checkpoint_seconds: float = Field(60.0, ge=0, description="Seconds between two checkpoints")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.sizes is not None and (not self.sizes or len(set(self.sizes)) < len(self.sizes)):
            raise ValueError(f"sizes = {list(self.sizes)} must be some, each once")
        largest = max((self.batch_of(n) for n in self.sizes or ()), default=self.batch or 1)
        if self.epoch_instances < largest:
            raise ValueError(f"epoch_instances {self.epoch_instances} is less than a batch ({largest})")
        return self

    def batch_of(self, n: int) -> int:
        """Return the instances of a step of ``n`` customers."""
        if self.batch is not None:
            return self.batch
        return next((batch for last, batch in PAPER_BATCHES if n <= last), _LARGEST_BATCH)

    def batches(self, n: int) -> int:
        """Return the steps of an epoch of ``n`` customers."""
        return self.epoch_instances // self.batch_of(n)

    def steps(self, n: int) -> int:
        """Return the steps of all epochs of ``n`` customers."""
        return self.epochs * self.batches(n)

    def recipe(self, n: int) -> Mapping[str, Any]:
        """Return what decides the model of ``n`` customers, besides the city."""
        left_out = {"model", "sizes", "checkpoint_seconds"}
        return self.model_dump(mode="json", exclude=left_out) | {"batch": self.batch_of(n)}

    def filled(
        self,
        model: str,
        sizes: tuple[int, ...],
        demand: Range | None = None,
        capacity: Range | None = None,
    ) -> AttentionSpec:
        """Return this with what it does not say: name, sizes, ranges."""
        values: dict[str, Any] = {
            "model": self.model or model,
            "sizes": self.sizes or sizes,
            "demand": self.demand or demand,
            "capacity": self.capacity or capacity,
        }
        return self.model_copy(update=values)
