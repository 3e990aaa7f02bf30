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
from mcvrp.storage.markdown import card as card_of, code, code_block, escaped, image, section
from mcvrp.storage.provenance import Parent, Provenance, provenance_line

# Strict types and patterns: a card may come from anybody.
_Name = Annotated[str, Field(pattern=layout.NAME_PATTERN)]
_Hash = Annotated[str, Field(pattern="^[0-9a-f]{1,64}$")]
_Count = Annotated[int, Strict(), Field(ge=1)]
_Figure = Annotated[int, Strict()] | Annotated[float, Strict(), Field(allow_inf_nan=False)] | None

_FEATURES = ("x", "y", "d", "t", "kappa", "gamma", "omega", "c", "a")  # Sec. 4.2, in their order
_FIGURES = {  # of the last row of training metrics: description and format
    "problem_loss": ("loss on problem tokens (nats)", "{:.3f}"),
    "problem_accuracy": ("accuracy on problem tokens", "{:.1%}"),
    "solution_loss": ("loss on solution tokens (nats)", "{:.3f}"),
    "solution_accuracy": ("accuracy on solution tokens", "{:.1%}"),
    "greedy_gap": ("greedy gap to the labels of the held-out set (%)", "{:.2f}"),
    "best_gap": ("the same, best of several samples (%)", "{:.2f}"),
}
_MASKED = ("not in the instance", "served", "demand over the remaining capacity", "depot after depot")
_USE = """
import numpy as np

import mcvrp

store = mcvrp.Store.open("STORE")
network, card = mcvrp.load_model(store, "{name}", {version})
city = mcvrp.load_city(store, "{city}")
orders = mcvrp.Instance(city.city_id, ids=np.arange(1, {after}), demands=np.full({n}, 5), capacity=35)
decoded = mcvrp.decode(network, city, [orders], strategy=mcvrp.Nucleus(), samples=100)[0]
print(decoded.best.routes, decoded.costs.min())
"""
_LIMITATIONS = """
The model is specific to the addresses of its city. Other cities are rejected, except for one that extends its
city (`mcvrp city extend`), for whose new addresses it is untrained. Instance sizes, demands and capacities
outside of the training distribution give feasible routes of higher cost.
"""


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
        "features": _FEATURES,  # and the costs to network.landmarks
        "masked": _MASKED,
        "rotation_trained": card.rotation_trained,
        "weights_sha256": card.weights_sha256,
    }
    return (json.dumps(config, indent=2) + "\n").encode()


def network_text(network: Mapping[str, Any]) -> str:
    """Return the dimensions of a ``network``, the fields of its config, in words."""
    return (
        f"{network['encoder_layers']} encoder + {network['decoder_layers']} decoder layers, d_model "
        f"{network['dim']}, {network['heads']} heads, ff {network['ff']}"
        + (", pointer output" if network.get("pointer") else "")
    )


def model_readme(card: ModelCard, *, plotted: bool = False) -> str:
    """Return the card as Markdown; ``plotted``: with the plot of the losses beside it."""
    network, metrics, count = card.network, card.metrics, min(20, card.largest or 20)
    named = {"name": card.name, "version": card.version, "city": card.city or "CITY"}
    labels = f"dataset {code(card.dataset)}, fingerprint `{card.fingerprint[:16]}`"
    steps = "" if card.steps is None else f", {card.steps:,} steps in its last phase"
    kept = "" if metrics.get("kept_step") is None else f", weights of its step {metrics['kept_step']:,}"
    sizes = {"sizes": f"{card.smallest} to {card.largest} customers per instance"} if card.smallest else {}
    measured = {
        text: form.format(metrics[name])
        for name, (text, form) in _FIGURES.items()
        if metrics.get(name) is not None
    }
    return card_of(
        f"Model {escaped(card.name)}, version {card.version}",
        {
            "city": f"{code(card.city) + ', ' if card.city else ''}`{card.city_id}`, {network['classes']:,} "
            "output classes (nodes, and spare classes for new addresses)",
            "network": network_text(network),
            "labels": labels if card.fingerprint else "none in its last phase",
            "run": f"{code(card.run)}{steps}{kept}",
            "trained with rotation": "yes" if card.rotation_trained else "no: decode without rotation",
            "weights": f"{card.weights_bytes:,} bytes, sha256 `{card.weights_sha256[:16]}`",
            **sizes,
            **measured,
        },
        image("Losses and held-out gap of the training", "losses.png") if plotted else "",
        section(
            "Use",
            code_block("python", _USE.format(**named, n=count, after=count + 1)),
            "`config.json` is for programs that load `model.safetensors`; `model.json` has the origin of the "
            "model.",
        ),
        section("Limitations", _LIMITATIONS),
        lead="A transformer that solves the capacitated vehicle routing problem for one city: given "
        "customers with demands and the vehicle capacity, it decodes routes customer by customer. It was "
        "trained on solutions of a heuristic.",
        made=provenance_line(card.provenance, card.folder),
    )
