"""Card of a model version as validated JSON, and the files made of it: config.json and README.md."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, Strict

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.markdown import card as card_of, code, escaped, image
from mcvrp.storage.provenance import Parent, Provenance, provenance_line

# Strict types and patterns: a card may come from anybody.
_Name = Annotated[str, Field(pattern=layout.NAME_PATTERN)]
_Hash = Annotated[str, Field(pattern="^[0-9a-f]{1,64}$")]
_Count = Annotated[int, Strict(), Field(ge=1)]
_Figure = Annotated[int, Strict()] | Annotated[float, Strict(), Field(allow_inf_nan=False)] | None

_GAPS = {"greedy_gap": "greedy gap to held-out labels", "best_gap": "gap of the best of several samples"}


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
    # Sizes and steps of the last phase, if known.
    smallest: _Count | None = None
    largest: _Count | None = None
    steps: _Count | None = None
    city: _Name | None = None  # name of the city; None if unknown
    provenance: Provenance | None = None

    def __post_init__(self) -> None:
        if self.smallest and self.largest and self.smallest > self.largest:
            raise ValueError(f"smallest is {self.smallest}, largest {self.largest}")

    @property
    def folder(self) -> str:
        """Path of the version in the store."""
        return layout.model_dir(self.name, self.version)

    @property
    def as_parent(self) -> Parent:
        """The version with its weights, as the parent of an artifact."""
        return Parent(self.folder, self.weights_sha256)

    def require_city(self, city: City, name: str | None = None) -> None:
        """Raise McvrpError unless the model is of ``city``, called ``name``, or of one that it extends.

        An extended city may have as many nodes as the network has output classes.
        """
        if not city.accepts(self.city_id):
            own, other = (
                f"{called!r} ({id})" if called else id
                for called, id in ((self.city, self.city_id), (name, city.city_id))
            )
            raise McvrpError(
                f"model {self.name!r} version {self.version} routes city {own}, "
                f"not city {other}: name a model of this city (--model, train.model, train.base), "
                "or train one"
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


def model_config(card: ModelCard) -> bytes:
    """Return config.json, for programs that load the weights."""
    config = {
        "city_id": card.city_id,
        "network": card.network,
        "rotation_trained": card.rotation_trained,
        "weights_sha256": card.weights_sha256,
    }
    return (json.dumps(config, indent=2) + "\n").encode()


def model_readme(card: ModelCard, *, plotted: bool = False) -> str:
    """Return the card as Markdown; ``plotted``: with the plot of the losses beside it."""
    network = card.network
    gaps = {text: card.metrics.get(name) for name, text in _GAPS.items()}
    return card_of(
        f"Model {escaped(card.name)}, version {card.version}",
        {
            "city": f"{code(card.city) + ', ' if card.city else ''}`{card.city_id}`",
            "network": f"{network['encoder_layers']} encoder + {network['decoder_layers']} decoder layers, "
            f"d_model {network['dim']}, {network['heads']} heads, ff {network['ff']}",
            "run": code(card.run),
            "labels": f"dataset {code(card.dataset)}" if card.fingerprint else "none in its last phase",
            **({"sizes": f"{card.smallest} to {card.largest} customers"} if card.smallest else {}),
            **{text: f"{gap:.2f} %" for text, gap in gaps.items() if gap is not None},
        },
        image("Losses and held-out gap of the training", "losses.png") if plotted else "",
        lead="It decodes routes for the addresses of its city. For those that `mcvrp city extend` added it "
        "is untrained; other sizes, demands and capacities than in training give routes of higher cost.",
        made=provenance_line(card.provenance),
    )
