"""The card of an attention model for people: what it is, how it was trained, how it went, how to use it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from storage.attention_models import AttentionCard

_PICTURE = "\n![Mean costs by epoch](costs.png)\n"
_SHOWN = 12  # epochs in the table: the first, the last, and some between


def attention_overview(name: str, cards: Sequence[AttentionCard]) -> str:
    """Return the models ``name`` of all sizes as Markdown, a row each."""
    return f"""# Attention models {name}

One network a size, trained without labels; each folder `n=SIZE` describes its own. Costs are means.

{attention_table(cards)}
"""


def attention_table(cards: Sequence[AttentionCard]) -> str:
    """Return a Markdown table with a row a model: how long it was trained, how good it became."""
    head = "| Customers | Steps | Epochs | Untrained cost | Greedy cost | Took (s) | Diverged | City |"
    lines = [head, "|--:|--:|--:|--:|--:|--:|---|---|"]
    for card in cards:
        greedy = f"{card.epochs[-1].greedy:.3f}" if card.epochs and card.diverged is None else "–"
        figures = f"{card.n} | {card.steps:,} | {len(card.epochs)} | {card.untrained:.3f} | {greedy}"
        lines.append(f"| {figures} | {card.seconds:,.0f} | {card.diverged or 'no'} | {card.city_id} |")
    return "\n".join(lines)


def attention_readme(card: AttentionCard, *, pictured: bool = False) -> str:
    """Return the card as Markdown, with the picture of the costs that lies beside it, if there is one."""
    network, recipe = card.network, card.recipe
    rows = [
        ("city", f"`{card.city_id}`"),
        ("customers an instance", f"{card.n}, no other number"),
        (
            "network",
            f"{network['layers']} layers of {network['dim']}, {network['heads']} heads, ff {network['ff']}",
        ),
        (
            "trained by",
            f"REINFORCE, {card.steps:,} steps of {recipe['batch']} instances, "
            f"solutions drawn of each: {recipe['paths']}",
        ),
        ("learning rate", f"{recipe['lr']:g}, times {recipe['lr_decay']:g} an epoch"),
        ("took", f"{card.seconds:,.0f} s on {card.hardware}"),
        ("weights", f"{card.weights_bytes:,} bytes, sha256 `{card.weights_sha256[:16]}`"),
    ]
    if card.diverged is not None:
        rows[-1] = ("weights", f"none: it diverged at {card.diverged}")
    every = max(1, -(-len(card.epochs) // _SHOWN))
    epochs = [e for e in card.epochs if e.epoch % every == 0 or e is card.epochs[-1] or e.epoch == 1]
    table = [
        f"| {e.epoch} | {e.step:,} | {e.sampled:.4f} | {e.greedy:.4f} | {e.baseline:.4f} |" for e in epochs
    ]
    head = ["| epoch | step | sampled | greedy | baseline, greedy |", "|--:|--:|--:|--:|--:|"]
    before = (
        f"Mean costs; the network routed the evaluation instances for {card.untrained:.4f} before training."
    )
    text = f"""# Attention model {card.name}, {card.n} customers

The attention model of Kool, van Hoof and Welling (2019), a baseline that learns without labels.

{_rows(rows)}

{before}

{chr(10).join([*head, *table])}
{_PICTURE if pictured else ""}"""
    return text if card.diverged is not None else text + _use(card)


def _use(card: AttentionCard) -> str:
    return f"""
## Use

```python
from model.instances import InstanceStream
from storage.attention_models import load_attention_model
from storage.cities import find_city
from storage.store import Store
from tasks.solvers.attention import AttentionSolver

store = Store.open("STORE")
network, card = load_attention_model(store, "{card.name}", {card.n})
city = find_city(store, card.city_id)
orders = [InstanceStream(city, 1, "test")({card.n}, 0)]
solver = AttentionSolver({{{card.n}: network}}, city_id=card.city_id)
for answer in solver.solve(city, orders, samples=100, seed=1):
    print(answer.solution.routes, answer.costs.min())
```
"""


def _rows(rows: list[tuple[str, str]]) -> str:
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)])
