"""Small attention models, their orders, and a slow forward pass in NumPy that shares nothing with theirs."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from mcvrp.model.attention_model import AttentionConfig, AttentionModel, Orders
from mcvrp.model.features import CityTable
from mcvrp.model.instances import InstanceRows
from mcvrp.model.problem import City, Instance

SMALL = AttentionConfig(dim=16, heads=4, layers=2, ff=24)


def small_model(seed: int = 0, config: AttentionConfig = SMALL) -> AttentionModel:
    """Return a network whose running statistics are not those of a fresh one."""
    torch.manual_seed(seed)
    model = AttentionModel(config)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm1d):
            module.get_buffer("running_mean").uniform_(-0.5, 0.5)
            module.get_buffer("running_var").uniform_(0.5, 1.5)
    return model.eval()


def rows_of(instances: list[Instance]) -> InstanceRows:
    return InstanceRows(
        np.stack([i.nodes for i in instances]),
        np.stack([np.array([0, *i.demands]) for i in instances]).astype(np.float32),
        np.array([i.capacity for i in instances], dtype=np.float32),
    )


def orders_of(city: City, instances: list[Instance]) -> Orders:
    return Orders.of(CityTable.of(city), rows_of(instances))


def slow_probabilities(
    model: AttentionModel, city: City, instance: Instance, path: list[int]
) -> list[NDArray[np.float64]]:
    """Return the probabilities of the nodes after each token of ``path`` but the last, as Kool et al. say.

    Their equations one by one, a head and a node at a time; network in evaluation mode.
    """
    w = {name: t.detach().double().numpy() for name, t in model.state_dict().items()}
    heads, width = model.config.heads, model.config.dim // model.config.heads
    xy = city.unit_xy[instance.nodes]
    demand = np.array([0, *instance.demands], dtype=float)
    h = [w["depot.weight"] @ xy[0] + w["depot.bias"]]
    for node in range(1, instance.n + 1):
        h.append(w["customer.weight"] @ [*xy[node], demand[node] / instance.capacity] + w["customer.bias"])

    def norm(x: NDArray[np.float64], name: str) -> NDArray[np.float64]:
        scaled = (x - w[f"{name}.running_mean"]) / np.sqrt(w[f"{name}.running_var"] + 1e-5)
        return scaled * w[f"{name}.weight"] + w[f"{name}.bias"]

    def softmax(x: list[float]) -> NDArray[np.float64]:
        e = np.exp(np.array(x) - max(x))
        return e / e.sum()

    for layer in range(model.config.layers):
        name = f"layers.{layer}"
        q, k, v = np.split(w[f"{name}.projections.weight"], 3)
        after = []
        for i in range(len(h)):
            mixed = np.zeros(model.config.dim)
            for head in range(heads):
                part = slice(head * width, (head + 1) * width)
                weights = softmax([(q @ h[i])[part] @ (k @ x)[part] / np.sqrt(width) for x in h])
                mixed[part] = sum(a * (v @ x)[part] for a, x in zip(weights, h, strict=True))
            x = norm(h[i] + w[f"{name}.out.weight"] @ mixed, f"{name}.norms.0")
            inner = np.maximum(w[f"{name}.ff.0.weight"] @ x + w[f"{name}.ff.0.bias"], 0)
            after.append(
                norm(x + w[f"{name}.ff.2.weight"] @ inner + w[f"{name}.ff.2.bias"], f"{name}.norms.1")
            )
        h = after

    k1, v1, k2 = np.split(w["nodes.weight"], 3)
    probabilities, served, room = [], {0}, float(instance.capacity)
    for last in path[:-1]:
        served.add(last)
        room = float(instance.capacity) if last == 0 else room - demand[last]
        allowed = [j for j in range(1, len(h)) if j not in served and demand[j] <= room]
        if last != 0 or len(served) == len(h):
            allowed.insert(0, 0)
        step = w["step.weight"] @ np.append(h[last], room / instance.capacity)
        query = w["graph.weight"] @ np.mean(h, axis=0) + step
        glimpse = np.zeros(model.config.dim)
        for head in range(heads):
            part = slice(head * width, (head + 1) * width)
            weights = softmax([query[part] @ (k1 @ h[j])[part] / np.sqrt(width) for j in allowed])
            glimpse[part] = sum(a * (v1 @ h[j])[part] for a, j in zip(weights, allowed, strict=True))
        final = w["glimpse.weight"] @ glimpse
        scores = [10 * np.tanh(final @ (k2 @ h[j]) / np.sqrt(model.config.dim)) for j in allowed]
        probability = np.zeros(len(h))
        probability[allowed] = softmax(scores)
        probabilities.append(probability)
    return probabilities
