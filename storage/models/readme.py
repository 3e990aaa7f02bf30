"""Files that describe a model: config.json for programs that load it, README.md for people."""

from __future__ import annotations

import json

from mcvrp.storage.markdown import TASK, card_metadata, render
from mcvrp.storage.models.card import ModelCard
from mcvrp.storage.versions import MODEL

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


def model_config(card: ModelCard) -> bytes:
    """Return config.json: what another program needs to load the weights."""
    config = {
        "city_id": card.city_id,
        "network": card.network,
        "features": _FEATURES,
        "masked": _MASKED,
        "rotation_trained": card.rotation_trained,
        "weights_sha256": card.weights_sha256,
        "format": MODEL.version,
    }
    return (json.dumps(config, indent=2) + "\n").encode()


def model_readme(card: ModelCard, *, plotted: bool = False, city: str = "") -> str:
    """Return README.md, the card of a model as Markdown.

    ``plotted``: whether `losses.png` is beside it; ``city``: name of the city beside it, for the folder of
    an exported model.
    """
    measured = [
        (text, form.format(card.metrics[name]))
        for name, (text, form) in _FIGURES.items()
        if card.metrics.get(name) is not None
    ]
    return card_metadata({"library_name": "mcvrp", "pipeline_tag": TASK}) + render(
        "mcvrp.storage.models", "model.md.j2", card=card, city=city, measured=measured, plotted=plotted
    )
