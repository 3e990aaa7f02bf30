"""The card of a published model for people: what it is, what made it, how good it is, how to load it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from storage.models import ModelCard

_PICTURE = "\n![Losses and held-out gap of the training](losses.png)\n"
# Of the last row of training metrics: name, factor, format.
_FIGURES = {
    "problem_loss": ("loss on problem tokens (nats)", 1, ".3f"),
    "problem_accuracy": ("accuracy on problem tokens (%)", 100, ".1f"),
    "solution_loss": ("loss on solution tokens (nats)", 1, ".3f"),
    "solution_accuracy": ("accuracy on solution tokens (%)", 100, ".1f"),
    "greedy_gap": ("greedy gap to the labels of the held-out set (%)", 1, ".2f"),
}


def model_readme(card: ModelCard, steps: int, *, pictured: bool = False) -> str:
    """Return the card of a model whose last phase had ``steps`` steps, as Markdown.

    ``pictured`` says whether `losses.png` lies beside it.
    """
    network: dict[str, Any] = dict(card.network)
    rows = [
        ("city", f"`{card.city_id}`, {network['classes']:,} output classes: nodes, and spare ones"),
        (
            "network",
            f"{network['encoder_layers']} + {network['decoder_layers']} layers of {network['dim']}, "
            f"{network['heads']} heads, ff {network['ff']}",
        ),
        ("labels", f"dataset `{card.dataset}`, fingerprint `{card.fingerprint[:16]}`"),
        ("run", f"`{card.run}`, the last phase of {steps:,} steps"),
        ("trained with rotation", "yes" if card.rotation_trained else "no: decode without"),
        ("weights", f"{card.weights_bytes:,} bytes, sha256 `{card.weights_sha256[:16]}`"),
    ]
    if card.smallest is not None:
        rows.append(("sizes", f"{card.smallest} to {card.largest} customers an instance"))
    measured = [
        (text, f"{factor * card.metrics[name]:{form}}")
        for name, (text, factor, form) in _FIGURES.items()
        if card.metrics.get(name) is not None
    ]
    return f"""# Model {card.name}, version {card.version}

A transformer that routes orders of one city: given customers with demands and the capacity of the
vehicles, it writes down routes, customer after customer. It was trained on solutions of a heuristic.

{_table(rows)}

At the end of training:

{_table(measured or [("measured", "nothing")])}
{_PICTURE if pictured else ""}
## Use

```python
import numpy as np

from model.decoding import Nucleus, decode
from model.problem import Instance
from storage.cities import find_city
from storage.models import load_model
from storage.store import Store

store = Store.open("STORE")
network, card = load_model(store, "{card.name}", {card.version})
city = find_city(store, card.city_id)
orders = Instance(card.city_id, ids=np.arange(1, 21), demands=np.full(20, 5), capacity=35)
decoded = decode(network, city, [orders], strategy=Nucleus(), samples=100)[0]
print(decoded.best.routes, decoded.costs.min())
```

`config.json` has what another program needs to load `model.safetensors`, `model.json` where it comes from.

## Limits

It knows the addresses of its own city and no others: another city is refused, but for one that
extends its own (`mcvrp city extend`), whose new addresses it has yet to learn. Orders of sizes that it
was not trained on, or demands and capacities drawn by other rules, are routed feasibly, and worse.
"""


def _table(rows: list[tuple[str, str]]) -> str:
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)])
