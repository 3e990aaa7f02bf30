"""Attention models learn."""

from __future__ import annotations

import numpy as np

from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City
from mcvrp.storage.models.attention import load_attention_model
from mcvrp.storage.store.store import Store
from mcvrp.tasks.attention.spec import AttentionNetworkSpec, AttentionSpec
from mcvrp.tasks.attention.train import train_attention
from mcvrp.tasks.solvers.attention import AttentionSolver

CITY = City.uniform(100, seed=1)
SPEC = AttentionSpec(
    model="small",
    sizes=(20,),
    network=AttentionNetworkSpec(dim=16, heads=2, layers=1, ff=32),
    epochs=2,
    epoch_instances=32 * 30,
    batch=32,
    paths=4,
    lr=2e-3,
    evaluation=200,
)


def test_a_network_learns_in_seconds(store: Store) -> None:
    """The greedy cost falls, also on held-out instances; more samples are better."""
    (card,) = train_attention(store, CITY, SPEC).cards
    costs = [card.untrained, *(epoch.greedy for epoch in card.epochs)]
    assert min(costs[1:]) < 0.75 * card.untrained
    assert costs[-1] < costs[1]
    model, _ = load_attention_model(store, "small", 20)
    stream = InstanceStream(CITY, 1, "test")
    instances = [stream(20, i) for i in range(20)]
    answers = list(AttentionSolver({20: model}).solve(CITY, instances, samples=32, seed=1))
    one, many = (float(np.mean([a.costs[:s].min() for a in answers])) for s in (1, 32))
    assert many < one < 0.8 * card.untrained
