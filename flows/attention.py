"""Flow `attention`: trains the attention models of the benchmark, one task per size."""

from __future__ import annotations

import time
from typing import Annotated

from mcvrp.flows.config.inputs import inputs
from mcvrp.flows.config.preflight import check_attention
from mcvrp.flows.config.validation import CityName, StoreUri, shown
from mcvrp.flows.figures import attention_figures
from mcvrp.flows.server.artifacts import links, show_figures, showing_progress
from mcvrp.flows.server.stage import DAY, stage, task
from mcvrp.model.problem import City
from mcvrp.storage.models.attention import AttentionCard, attention_table
from mcvrp.storage.store.store import Store
from mcvrp.tasks.attention.spec import AttentionSpec
from mcvrp.tasks.attention.train import AttentionSummary, train_size


@task("train attention model", "train attention model, n={n}")
def train_attention_model(store: Store, city: City, spec: AttentionSpec, n: int) -> AttentionCard:
    """Train the attention model for ``n`` customers from its last checkpoint."""
    with showing_progress(f"attention {spec.model} {n}"):
        return train_size(store, city, spec, n)


@stage("attention", "attention models of {city}", timeout=30 * DAY)
def attention(
    city: CityName,
    attention: Annotated[AttentionSpec, shown("Attention models", "Name of the models, sizes, epochs")],
    store: StoreUri = None,
) -> AttentionSummary:
    """Train the attention models that are not finished. A model that diverges is stored as diverged."""
    began, spec = time.monotonic(), attention.filled(city, attention.sizes or ())
    opened, read = inputs(check_attention, store, city, spec)
    cards = tuple(train_attention_model(opened, read.city, spec, n) for n in spec.sizes or ())
    summary = AttentionSummary(spec.model or city, cards, time.monotonic() - began)
    paths = {f"n = {card.n}": card.folder for card in cards}
    title, figures = f"Attention models {summary.model}", attention_figures(summary)
    show_figures(f"attention {summary.model}", title, figures, attention_table(cards), links(opened, paths))
    return summary
