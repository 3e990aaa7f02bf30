"""Choice of nodes from scores, against a slow reference."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, strategies as st

from mcvrp.model.errors import McvrpError
from mcvrp.model.strategies import Beam, Nucleus, Strategy


def shares(scores: list[float], p: float, temperature: float) -> dict[int, float]:
    """The renormalised probability of each node that may be drawn, likeliest first."""
    order = sorted(range(len(scores)), key=lambda node: (-scores[node], node))
    weights = [math.exp((scores[node] - scores[order[0]]) / temperature) for node in order]
    kept: dict[int, float] = {}
    for node, weight in zip(order, weights, strict=True):
        if math.fsum(kept.values()) < p * math.fsum(weights):
            kept[node] = weight
    whole = math.fsum(kept.values())
    return {node: weight / whole for node, weight in kept.items()}


@given(
    st.lists(st.floats(-30, 30, width=32) | st.just(-math.inf), min_size=1, max_size=12).filter(
        lambda scores: max(scores) > -math.inf
    ),
    st.floats(1e-6, 1.0),
    st.floats(0.05, 20),
    st.floats(0, 1, exclude_max=True),
)
def test_sampling_draws_as_a_slow_reference_does(
    scores: list[float], p: float, temperature: float, uniform: float
) -> None:
    """The uniform is in the interval of the drawn node, the kept shares as consecutive intervals."""
    uniforms = torch.tensor([uniform], dtype=torch.float64)
    node = int(Nucleus(p, temperature).choose(torch.tensor([scores]), uniforms))
    # The sums of the two may round to different sides of p: accept what either side keeps.
    candidates = [shares(scores, min(1.0, p * (1 + slack)), temperature) for slack in (0, 1e-12, -1e-12)]
    assert any(falls_into(node, uniform, kept) for kept in candidates)


def falls_into(node: int, uniform: float, kept: dict[int, float]) -> bool:
    """Return whether ``uniform`` is in the interval of ``node`` in [0, 1), up to rounding."""
    nodes = list(kept)
    before = math.fsum(kept[other] for other in nodes[: nodes.index(node)]) if node in kept else 2
    return before - 1e-12 <= uniform <= before + kept.get(node, 0) + 1e-12


def test_the_largest_uniform_draws_the_last_kept_node() -> None:
    uniforms = torch.full((1000,), 1 - 2.0**-53, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(1000, 6, generator=generator).masked_fill(
        torch.tensor([False] * 5 + [True]), -torch.inf
    )
    assert int(Nucleus(1.0).choose(scores, uniforms).max()) < 5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        *((lambda p=p: Nucleus(p), "nucleus") for p in (0.0, -1.0, 1.5, math.nan)),
        (lambda: Nucleus(temperature=0.0), "temperature"),
        (lambda: Nucleus(temperature=math.inf), "temperature .* finite, not inf"),
        (lambda: Beam(0), "width"),
    ],
)
def test_invalid_settings_are_rejected(make: Callable[[], Strategy], message: str) -> None:
    with pytest.raises(McvrpError, match=message):
        make()
