"""Choosing a node from scores: against slow references, and on cases by hand."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from mcvrp.model.errors import McvrpError
from mcvrp.model.strategies import Beam, Nucleus, Sampling


def shares(scores: list[float], p: float, k: int | None, temperature: float) -> dict[int, float]:
    """The renormalised probability of each node that may be drawn, likeliest first; one node at a time."""
    order = sorted(range(len(scores)), key=lambda node: (-scores[node], node))[:k]
    weights = [math.exp((scores[node] - scores[order[0]]) / temperature) for node in order]
    found: dict[int, float] = {}
    for node, weight in zip(order, weights, strict=True):
        if math.fsum(found.values()) < p * math.fsum(weights):
            found[node] = weight
    whole = math.fsum(found.values())
    return {node: weight / whole for node, weight in found.items()}


@given(
    st.lists(st.floats(-30, 30, width=32) | st.just(-math.inf), min_size=1, max_size=12).filter(
        lambda scores: max(scores) > -math.inf
    ),
    st.floats(1e-6, 1.0),
    st.none() | st.integers(1, 14),
    st.floats(0.05, 20),
    st.floats(0, 1, exclude_max=True),
)
def test_sampling_draws_as_a_slow_reference_does(
    scores: list[float], p: float, k: int | None, temperature: float, uniform: float
) -> None:
    """The uniform falls into the drawn node's part of the kept shares, laid end to end."""
    node = int(
        Sampling(p, k, temperature).choose(
            torch.tensor([scores]), torch.tensor([uniform], dtype=torch.float64)
        )
    )
    # The sums of the two may round to different sides of p: accept what either side keeps.
    candidates = [shares(scores, min(1.0, p * (1 + slack)), k, temperature) for slack in (0, 1e-12, -1e-12)]
    assert any(falls_into(node, uniform, kept) for kept in candidates)


def falls_into(node: int, uniform: float, kept: dict[int, float]) -> bool:
    """True if ``uniform`` lies in ``node``'s part of [0, 1), up to rounding."""
    before = (
        math.fsum(share for other, share in kept.items() if list(kept).index(other) < list(kept).index(node))
        if node in kept
        else 2
    )
    return before - 1e-12 <= uniform <= before + kept.get(node, 0) + 1e-12


PROBABILITY = np.array([0.1, 0.4, 0.0, 0.3, 0.2])


@pytest.mark.parametrize(
    ("p", "kept"),
    [
        (1e-9, {1: 1.0}),
        (0.39, {1: 1.0}),
        (0.41, {1: 4 / 7, 3: 3 / 7}),
        (0.75, {1: 4 / 9, 3: 3 / 9, 4: 2 / 9}),
        (1.0, {1: 0.4, 3: 0.3, 4: 0.2, 0: 0.1}),
    ],
)
def test_nucleus_draws_from_the_smallest_set_that_holds_p(p: float, kept: dict[int, float]) -> None:
    """On 0.4, 0.3, 0.2, 0.1, an even grid of uniforms is divided as the renormalised shares say."""
    count = 10_000
    grid = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    scores = torch.from_numpy(PROBABILITY).log().expand(count, -1)
    drawn = Counter(Nucleus(p).choose(scores, grid).tolist())
    assert drawn.keys() == kept.keys()
    for node, share in kept.items():
        assert drawn[node] / count == pytest.approx(share, abs=2 / count)


@given(st.lists(st.floats(-30, 30), min_size=1, max_size=12), st.floats(1e-6, 1.0), st.integers(0, 2**53 - 1))
def test_nucleus_never_draws_outside_its_set(scores: list[float], p: float, word: int) -> None:
    """Any uniform, also the largest below 1: the draw is in the set of a slow reference."""
    uniform = word * 2.0**-53
    node = int(Nucleus(p).choose(torch.tensor([scores]), torch.tensor([uniform], dtype=torch.float64)))
    probability = torch.tensor(scores).double().softmax(0).tolist()
    before = sum(q for q in probability if q > probability[node])
    assert before < p + 1e-12


def test_the_largest_uniform_draws_the_last_kept_node() -> None:
    """Rounding of u times the kept share cannot push the draw onto the forbidden node."""
    uniforms = torch.full((1000,), 1 - 2.0**-53, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(1000, 6, generator=generator).masked_fill(
        torch.tensor([False] * 5 + [True]), -torch.inf
    )
    assert int(Nucleus(1.0).choose(scores, uniforms).max()) < 5


@pytest.mark.parametrize("p", [0.0, -1.0, 1.5, float("nan")])
def test_a_share_outside_0_to_1_is_refused(p: float) -> None:
    """The message names the value."""
    with pytest.raises(McvrpError, match="nucleus"):
        Nucleus(p)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"k": 0}, "k = 0"),
        ({"temperature": 0.0}, "temperature"),
        ({"temperature": float("inf")}, "temperature"),
    ],
)
def test_meaningless_settings_are_refused(options: dict[str, float], words: str) -> None:
    """The message names the value."""
    with pytest.raises(McvrpError, match=words):
        Sampling(**options)  # type: ignore[arg-type]
    with pytest.raises(McvrpError, match="width"):
        Beam(0)


def test_strategies_say_what_they_do() -> None:
    """In words for a table's footnote; neutral settings go unsaid."""
    assert Nucleus().description == "nucleus sampling with p = 0.9"
    assert Sampling(0.8, 5, 0.7).description == "nucleus sampling with p = 0.8, k = 5, temperature 0.7"
    assert Beam(4).description == "beam search of width 4, dominated paths left out"
    assert Beam(4, dominance=False).description == "beam search of width 4"
