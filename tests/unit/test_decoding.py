"""Decoding: feasible whatever the weights, equal to the full forward pass, and reproducible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import model.decoding as decoding
from model.decoding import Decoded, Greedy, Nucleus, Strategy, decode
from model.errors import McvrpError
from model.features import CityTable, feasible_along, problem_features, solution_features
from model.instances import InstanceStream, Rules
from model.network import FmMcvrp, NetworkConfig
from model.problem import City, Instance, cost, infeasibility

CITY = City.uniform(40, seed=3)
STREAM = InstanceStream(CITY, 1, "test", Rules(capacity=(12, 25)))
MIXED = [STREAM(5, 0), STREAM(23, 1), STREAM(1, 0), STREAM(23, 2), STREAM(12, 0)]


def network(seed: int = 0, sharpness: float = 3.0) -> FmMcvrp:
    """A small random network whose choices are far from uniform."""
    torch.manual_seed(seed)
    config = NetworkConfig(CITY.customers + 1, dim=16, heads=2, encoder_layers=1, decoder_layers=2, ff=32)
    model = FmMcvrp(config).eval()
    model.output.weight.data *= sharpness
    return model


SAMPLING = Nucleus(0.9)
MODEL = network()


def run(
    instances: Sequence[Instance],
    strategy: Strategy = SAMPLING,
    *,
    model: FmMcvrp = MODEL,
    **options: int,
) -> list[Decoded]:
    return decode(model, CITY, instances, strategy=strategy, **options)  # type: ignore[arg-type]


def full_scores(model: FmMcvrp, instance: Instance, path: list[int], angle: float = 0.0) -> torch.Tensor:
    """Masked scores after each token of ``path`` but the last, without any cache, (L, T)."""
    ids = torch.from_numpy(instance.nodes)[None]
    demands = torch.tensor([[0, *instance.demands.tolist()]], dtype=torch.float32)
    capacity = torch.tensor([float(instance.capacity)])
    position = torch.from_numpy(np.searchsorted(instance.nodes, path[:-1]))[None]
    with torch.inference_mode():
        problem = problem_features(CityTable.of(CITY), ids, demands, capacity, torch.tensor([angle]))
        solution = solution_features(problem, demands, capacity, position)
        embeddings = model.decode(solution, model.memory(model.encode(problem)))
        allowed = feasible_along(demands, capacity, torch.tensor([instance.n + 1]), position)
        return model.scores(embeddings, ids).masked_fill(~allowed, -torch.inf)[0]


def trimmed(instance: Instance, decoded: Decoded, sample: int) -> list[int]:
    path: list[int] = decoded.solution(sample).path.tolist()
    return path


def test_greedy_is_the_argmax_of_the_full_forward_pass_at_every_step() -> None:
    """Cache, compaction, padding and batching change nothing: each node is the best of a plain forward."""
    for instance, decoded in zip(MIXED, run(MIXED, Greedy()), strict=True):
        path = trimmed(instance, decoded, 0)
        best = instance.nodes[full_scores(MODEL, instance, path).argmax(-1).numpy()]
        assert path[1:] == best.tolist()


def test_scores_of_cached_steps_equal_the_full_forward_pass() -> None:
    """Every step's masked scores agree with the uncached ones to 1e-5."""
    seen: list[torch.Tensor] = []

    class Spy(Greedy):
        def choose(self, scores: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
            seen.append(scores[0, 0])
            return super().choose(scores, uniforms)

    instance = MIXED[1]
    (decoded,) = run([instance], Spy())
    path = trimmed(instance, decoded, 0)
    expected = full_scores(MODEL, instance, path)
    assert len(seen) == len(expected)
    torch.testing.assert_close(torch.stack(seen), expected, atol=1e-5, rtol=0)


@given(
    st.integers(0, 10_000),
    st.lists(st.integers(1, 40), min_size=1, max_size=5),
    st.tuples(st.integers(9, 30), st.integers(0, 40)),
    st.sampled_from([Greedy(), Nucleus(0.3), Nucleus(1.0)]),
    st.booleans(),
    st.integers(1, 9),
)
@settings(max_examples=40, deadline=None)
def test_every_answer_is_feasible_whatever_weights_sizes_and_capacities(
    seed: int, sizes: list[int], capacity: tuple[int, int], strategy: Strategy, rotations: bool, batch: int
) -> None:
    """All customers once, no vehicle over capacity, no empty route before the end, right cost."""
    low, extra = capacity
    stream = InstanceStream(CITY, seed, "test", Rules(capacity=(low, low + extra)))
    instances = [stream(n, i) for i, n in enumerate(sizes)]
    samples = 1 if isinstance(strategy, Greedy) else 3
    answers = decode(
        network(seed),
        CITY,
        instances,
        strategy=strategy,
        samples=samples,
        rotations=rotations,
        max_batch=batch,
    )
    for instance, decoded in zip(instances, answers, strict=True):
        assert decoded.costs.shape == (samples,)
        for k in range(samples):
            solution = decoded.solution(k)
            assert infeasibility(instance, solution) is None
            path = solution.path.tolist()
            assert decoded.paths[k].tolist() == path + [0] * (decoded.paths.shape[1] - len(path))
            assert decoded.costs[k] == pytest.approx(cost(CITY, solution), abs=1e-9)
        assert cost(CITY, decoded.best) == pytest.approx(decoded.costs.min(), abs=1e-9)


@pytest.mark.parametrize("rotations", [False, True])
def test_fewer_samples_are_a_prefix_of_more(rotations: bool) -> None:
    """s = 1 and s = 4 are the first of 16 samples, rotated or not."""
    many = decode(MODEL, CITY, MIXED, strategy=Nucleus(), samples=16, rotations=rotations)
    for samples in (1, 4):
        few = decode(MODEL, CITY, MIXED, strategy=Nucleus(), samples=samples, rotations=rotations)
        for less, more in zip(few, many, strict=True):
            np.testing.assert_array_equal(less.costs, more.costs[:samples])


@pytest.mark.parametrize("rotations", [False, True])
def test_an_answer_does_not_depend_on_its_batch(rotations: bool) -> None:
    """Alone, in reverse order, or three paths at a time: the same samples of every instance."""
    options = {"strategy": Nucleus(), "samples": 5, "rotations": rotations}
    together = decode(MODEL, CITY, MIXED, **options)  # type: ignore[arg-type]
    backwards = decode(MODEL, CITY, MIXED[::-1], max_batch=3, **options)[::-1]  # type: ignore[arg-type]
    for k, instance in enumerate(MIXED):
        (alone,) = decode(MODEL, CITY, [instance], **options)  # type: ignore[arg-type]
        np.testing.assert_array_equal(together[k].paths, alone.paths)
        np.testing.assert_array_equal(backwards[k].paths, alone.paths)


def test_samples_differ_and_follow_the_seed() -> None:
    """Samples of an instance are not copies of each other; another seed gives others, the same the same."""
    (one,) = run([MIXED[1]], samples=8)
    (again,) = run([MIXED[1]], samples=8)
    (other,) = run([MIXED[1]], samples=8, seed=1)
    assert len(np.unique(one.costs)) > 1
    np.testing.assert_array_equal(one.paths, again.paths)
    assert not np.array_equal(one.costs, other.costs)


def test_the_first_sample_sees_the_city_as_it_is_and_the_others_their_own_turn() -> None:
    """With rotation, sample 0 is the greedy answer of the plain city; others follow turned features."""
    tiny = Nucleus(1e-9)  # as good as greedy, so a difference comes from the rotation alone
    plain = decode(MODEL, CITY, MIXED, strategy=Greedy())
    turned = decode(MODEL, CITY, MIXED, strategy=tiny, samples=8, rotations=True)
    upright = decode(MODEL, CITY, MIXED, strategy=tiny, samples=8)
    for a, b, c in zip(plain, turned, upright, strict=True):
        assert a.solution(0) == b.solution(0)
        assert {c.solution(k) for k in range(8)} == {a.solution(0)}
    assert any(len({b.solution(k) for k in range(8)}) > 1 for b in turned)


def test_a_cache_that_was_too_short_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    """With no room for the network's many depot visits at first, the answer is the same."""
    expected = run(MIXED, samples=3)
    monkeypatch.setattr(decoding, "_SPARE_ROUTES", -3.0)
    for a, b in zip(run(MIXED, samples=3), expected, strict=True):
        np.testing.assert_array_equal(a.paths, b.paths)


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
    """Whatever the uniform, also the largest below 1, the draw is in the set of a slow reference."""
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


def test_another_city_is_refused_by_name() -> None:
    """A network or instance of another city, and several greedy samples, are errors in one sentence."""
    elsewhere = City.uniform(40, seed=4)
    with pytest.raises(McvrpError, match=elsewhere.city_id):
        run([InstanceStream(elsewhere, 1, "test", Rules(capacity=(12, 25)))(5, 0)])
    with pytest.raises(McvrpError, match="41 nodes"):
        decode(MODEL, City.uniform(50, seed=3), [], strategy=Greedy())
    with pytest.raises(McvrpError, match="greedy"):
        run(MIXED, Greedy(), samples=2)
