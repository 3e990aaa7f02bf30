"""Card of a model version: what it is and where it comes from, as validated JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, Strict

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.versions import MODEL

# Strict types and patterns: a card may come from anybody (`mcvrp models import`).
_Name = Annotated[str, Field(pattern=layout.NAME_PATTERN)]
_Hash = Annotated[str, Field(pattern="^[0-9a-f]{1,64}$")]
_Count = Annotated[int, Strict(), Field(ge=1)]
_Figure = Annotated[int, Strict()] | Annotated[float, Strict(), Field(allow_inf_nan=False)] | None


@dataclass(frozen=True)
class ModelCard:
    """Card of a version of a model; written after the weights, which it vouches for."""

    name: _Name
    version: _Count
    city_id: _Hash
    network: Mapping[str, Any]  # the fields of `model.network.NetworkConfig`
    run: _Name
    dataset: _Name
    fingerprint: Annotated[str, Field(pattern="^[0-9a-f]{0,64}$")]  # of the labels; "" without any
    rotation_trained: Annotated[bool, Strict()]  # otherwise decoding must not rotate
    metrics: Mapping[str, _Figure]  # the last row of the run's training metrics
    weights_bytes: _Count
    weights_sha256: _Hash
    # Sizes and steps of the last phase; None in cards that were written before these fields.
    smallest: _Count | None = None
    largest: _Count | None = None
    steps: _Count | None = None
    # Name of the city and checksum of its customers' ids, which `city_id` leaves out; None if unknown.
    city: _Name | None = None
    ids_sha256: _Hash | None = None
    format: int = MODEL.version

    def __post_init__(self) -> None:
        if self.smallest and self.largest and self.smallest > self.largest:
            raise ValueError(f"smallest is {self.smallest}, largest {self.largest}")

    @property
    def folder(self) -> str:
        """Path of the version in the store."""
        return layout.model_dir(self.name, self.version)

    def require_city(self, city: City) -> None:
        """Raise McvrpError unless the model is of ``city``, or of one that it extends.

        An extended city may have as many nodes as the network has output classes.
        """
        if not city.accepts(self.city_id):
            raise McvrpError(
                f"model {self.name!r} version {self.version} routes city {self.city_id}, "
                f"not city {city.city_id}: name a model of this city, or train one"
            )
        classes = self.network.get("classes")
        if type(classes) is not int:
            raise McvrpError(
                f"the card of model {self.name!r} version {self.version} has no number of output classes: "
                "remove the version, and train it again"
            )
        if classes < city.customers + 1:
            raise McvrpError(
                f"model {self.name!r} version {self.version} has {classes:,} output classes, city "
                f"{city.city_id} needs {city.customers + 1:,}: train a new model, the labels stay valid"
            )
