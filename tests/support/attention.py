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
    """Return the probabilities of the nodes after each token of ``path`` but the last (Kool et al.)."""
    w = {name: t.detach().double().numpy() for name, t in model.state_dict().items()}
    dim, width = model.config.dim, model.config.dim // model.config.heads
    parts = [slice(head * width, (head + 1) * width) for head in range(model.config.heads)]
    demand = np.array([0, *instance.demands], dtype=float)
    inputs = np.column_stack([city.unit_xy[instance.nodes], demand / instance.capacity])
    depot = inputs[:1, :2] @ w["depot.weight"].T + w["depot.bias"]
    h = np.concatenate([depot, inputs[1:] @ w["customer.weight"].T + w["customer.bias"]])

    def norm(x: NDArray[np.float64], name: str) -> NDArray[np.float64]:
        scaled = (x - w[f"{name}.running_mean"]) / np.sqrt(w[f"{name}.running_var"] + 1e-5)
        return scaled * w[f"{name}.weight"] + w[f"{name}.bias"]

    def softmax(x: NDArray[np.float64]) -> NDArray[np.float64]:
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    def attend(q: NDArray[np.float64], k: NDArray[np.float64], v: NDArray[np.float64]) -> NDArray[np.float64]:
        heads = [softmax(q[..., part] @ k[:, part].T / np.sqrt(width)) @ v[:, part] for part in parts]
        return np.concatenate(heads, -1)

    for layer in range(model.config.layers):
        name = f"layers.{layer}"
        q, k, v = (h @ matrix.T for matrix in np.split(w[f"{name}.projections.weight"], 3))
        x = norm(h + attend(q, k, v) @ w[f"{name}.out.weight"].T, f"{name}.norms.0")
        inner = np.maximum(x @ w[f"{name}.ff.0.weight"].T + w[f"{name}.ff.0.bias"], 0)
        h = norm(x + inner @ w[f"{name}.ff.2.weight"].T + w[f"{name}.ff.2.bias"], f"{name}.norms.1")

    k1, v1, k2 = (h @ matrix.T for matrix in np.split(w["nodes.weight"], 3))
    probabilities, served, room = [], {0}, float(instance.capacity)
    for last in path[:-1]:
        served.add(last)
        room = float(instance.capacity) if last == 0 else room - demand[last]
        allowed = [j for j in range(1, len(h)) if j not in served and demand[j] <= room]
        if last != 0 or len(served) == len(h):
            allowed.insert(0, 0)
        step = w["step.weight"] @ np.append(h[last], room / instance.capacity)
        query = w["graph.weight"] @ h.mean(axis=0) + step
        final = w["glimpse.weight"] @ attend(query, k1[allowed], v1[allowed])
        probability = np.zeros(len(h))
        probability[allowed] = softmax(10 * np.tanh(k2[allowed] @ final / np.sqrt(dim)))
        probabilities.append(probability)
    return probabilities
