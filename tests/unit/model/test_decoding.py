"""Decoding: feasible whatever the weights, equal to the full forward pass, and reproducible."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from mcvrp.model import partial_paths as paths
from mcvrp.model.decoding import Beam, Decoded, Greedy, Nucleus, Strategy, decode
from mcvrp.model.errors import McvrpError
from mcvrp.model.features import problem_features
from mcvrp.model.instances import InstanceStream, Rules
from mcvrp.model.loss import next_nodes
from mcvrp.model.network import FmMcvrp, NetworkConfig
from mcvrp.model.problem import City, Instance, Solution, cost, infeasibility
from mcvrp.model.strategies import Independent
from tests.support.batches import batch_of
from tests.support.networks import require_equal

CITY = City.uniform(40, seed=3)
_COSTS = np.random.default_rng(5).uniform(1.0, 2.0, (41, 41)) * (1 - np.eye(41))
ASYMMETRIC = City(CITY.xy, matrix=_COSTS)
STREAM = InstanceStream(CITY, 1, "test", Rules(capacity=(12, 25)))
MIXED = [STREAM(5, 0), STREAM(23, 1), STREAM(1, 0), STREAM(23, 2), STREAM(12, 0)]


def network(seed: int = 0, sharpness: float = 3.0) -> FmMcvrp:
    """A small random network, far from uniform; odd seeds have a pointer, every third seed landmarks."""
    torch.manual_seed(seed)
    config = NetworkConfig(CITY.customers + 1, dim=16, heads=2, encoder_layers=1, decoder_layers=2, ff=32)
    model = FmMcvrp(replace(config, pointer=bool(seed % 2), landmarks=3 * (seed % 3 == 2))).eval()
    model.output.weight.data *= sharpness
    if model.pointer is not None:
        torch.nn.init.normal_(model.pointer.weight, std=sharpness / 16)
    return model


SAMPLING = Nucleus(0.9)
MODEL, POINTED, LANDMARKED = network(), network(1), network(2)


def run(
    instances: Sequence[Instance], strategy: Strategy = SAMPLING, model: FmMcvrp = MODEL, **options: Any
) -> list[Decoded]:
    return decode(model, CITY, instances, strategy=strategy, **options)


def full_scores(model: FmMcvrp, instance: Instance, path: list[int]) -> torch.Tensor:
    """Masked scores after each token of ``path`` but the last, without any cache, (L, T)."""
    batch = batch_of([(instance, Solution(()))])
    position = torch.from_numpy(np.searchsorted(instance.nodes, path))[None]
    with torch.inference_mode():
        problem = problem_features(model.table(CITY), batch.ids, batch.demands, batch.capacity)
        nodes = model.encode(problem)
        return next_nodes(model, batch, problem, nodes, position, torch.tensor([len(path)]))[0][0]


@pytest.mark.parametrize("model", [MODEL, POINTED, LANDMARKED], ids=["plain", "pointer", "landmarks"])
def test_greedy_is_the_argmax_of_the_full_forward_pass_at_every_step(model: FmMcvrp) -> None:
    """Cache, compaction, padding and batching change nothing: each node is the best of a plain forward."""
    for instance, decoded in zip(MIXED, run(MIXED, Greedy(), model=model), strict=True):
        path = decoded.best.path.tolist()
        best = instance.nodes[full_scores(model, instance, path).argmax(-1).numpy()]
        assert path[1:] == best.tolist()


@given(
    st.integers(0, 10_000),
    st.lists(st.integers(1, 40), min_size=1, max_size=5),
    st.tuples(st.integers(9, 30), st.integers(0, 40)),
    st.sampled_from(
        [Greedy(), Beam(3), Nucleus(0.3), Nucleus(temperature=2.0), Nucleus(1.0, temperature=1e-6)]
    ),
    st.integers(1, 4),
    st.none() | st.integers(1, 9),
)
@settings(max_examples=8)
def test_every_answer_is_feasible_whatever_weights_sizes_and_capacities(
    seed: int,
    sizes: list[int],
    capacity: tuple[int, int],
    strategy: Strategy,
    rotations: int,
    batch: int | None,
) -> None:
    """All customers once, no vehicle over capacity, no empty route before the end, right cost."""
    low, extra = capacity
    stream = InstanceStream(CITY, seed, "test", Rules(capacity=(low, low + extra)))
    instances = [stream(n, i) for i, n in enumerate(sizes)]
    samples = rotations if isinstance(strategy, Greedy) else 3
    answers = run(
        instances, strategy, model=network(seed), samples=samples, rotations=rotations, max_batch=batch
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


@pytest.mark.parametrize(
    ("strategy", "rotations"), [(Nucleus(), 1), (Nucleus(), 2), (Nucleus(), 5), (Beam(5), 1)]
)
def test_an_answer_does_not_depend_on_its_batch(strategy: Strategy, rotations: int) -> None:
    """Alone, in reverse order, or three paths at a time: the same samples of every instance."""
    options: dict[str, Any] = {"samples": 5, "rotations": rotations}
    together = run(MIXED, strategy, **options)
    backwards = run(MIXED[::-1], strategy, max_batch=3, **options)[::-1]
    alone = [run([instance], strategy, **options)[0] for instance in MIXED]
    require_equal(together, alone)
    require_equal(backwards, alone)


def test_samples_that_share_a_rotation_share_its_frame_and_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sample i has rotation i mod R, rotation 0 is the identity, and there are R encodings."""
    encoded: list[int] = []
    encode = FmMcvrp.encode

    def counting(self: FmMcvrp, problem: torch.Tensor, lengths: torch.Tensor | None = None) -> torch.Tensor:
        encoded.append(len(problem))
        return encode(self, problem, lengths)

    monkeypatch.setattr(FmMcvrp, "encode", counting)
    tiny = Nucleus(1e-9)  # greedy, so that paths differ by rotation alone
    (shared,) = run([MIXED[1]], tiny, samples=12, rotations=4)
    assert encoded == [4]
    (own,) = run([MIXED[1]], tiny, samples=12, rotations=12)
    for sample in range(12):
        assert shared.solution(sample) == own.solution(sample % 4)
    require_equal(run([MIXED[1]], Greedy(), samples=12, rotations=12), [own])
    (plain,) = run([MIXED[1]], Greedy())
    assert own.solution(0) == plain.solution(0) != own.solution(1)


def test_samples_differ_and_follow_the_seed() -> None:
    """Samples of an instance are not copies of each other; another seed gives others, the same the same."""
    (one,) = run([MIXED[1]], samples=8)
    (again,) = run([MIXED[1]], samples=8)
    (other,) = run([MIXED[1]], samples=8, seed=1)
    assert len(np.unique(one.costs)) > 1
    np.testing.assert_array_equal(one.paths, again.paths)
    assert not np.array_equal(one.costs, other.costs)


@pytest.mark.parametrize(("setting", "value"), [("_RETIRE", 0.0), ("_RETIRE", 1.1), ("_SPARE_ROUTES", -3.0)])
@pytest.mark.parametrize("strategy", [Nucleus(), Beam(6)])
def test_memory_of_a_batch_changes_nothing(
    strategy: Strategy, setting: str, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ended paths leave never or at once; the cache has no room for depot visits at first."""
    expected = run(MIXED, strategy, samples=6)
    monkeypatch.setattr(paths, setting, value)
    require_equal(run(MIXED, strategy, samples=6), expected)


# --- beam search


def test_a_beam_of_width_1_is_greedy() -> None:
    require_equal(run(MIXED, Beam(1)), run(MIXED, Greedy()))


@pytest.mark.parametrize(("city", "width"), [(CITY, 2), (CITY, 12), (ASYMMETRIC, 5)])
def test_a_beam_drops_what_is_dearer_in_the_same_state(city: City, width: int) -> None:
    """Against a beam by hand, path by path, with full forward passes; any sizes may meet in the batch."""
    instances = [Instance(city.city_id, i.ids, i.demands, i.capacity) for i in MIXED]
    decoded = decode(MODEL, city, instances, strategy=Beam(width), samples=width)
    for instance, beam in zip(instances, decoded, strict=True):
        expected = beam_by_hand(city, instance, width)
        expected += expected[:1] * (width - len(expected))
        assert [beam.solution(k).path.tolist() for k in range(width)] == expected


@pytest.mark.parametrize("rotations", [1, 2])
def test_a_beam_answers_with_the_best_of_its_width(rotations: int) -> None:
    """Without a number of samples; other strategies draw one."""
    default = run(MIXED, Beam(6), rotations=rotations)
    require_equal(default, run(MIXED, Beam(6), samples=6, rotations=rotations))
    greedy = run(MIXED, Beam(1))
    assert sum(each.costs.min() for each in default) < sum(each.costs.min() for each in greedy)
    assert [len(each.costs) for each in run(MIXED, SAMPLING, rotations=rotations)] == [1] * len(MIXED)


def beam_by_hand(city: City, instance: Instance, width: int) -> list[list[int]]:
    """Return the paths of a beam, most probable first."""
    demands = dict(zip(instance.ids.tolist(), instance.demands.tolist(), strict=True))

    def ended(path: list[int]) -> bool:
        return demands.keys() <= set(path) and path[-1] == 0

    beam: list[tuple[float, list[int]] | None] = [(0.0, [0])]
    while True:
        candidates: list[tuple[float, int, list[int]]] = []  # log-probability, parent, path
        for k, entry in enumerate(beam):
            if entry is None:
                continue
            total, path = entry
            if ended(path):
                candidates.append((total, k, path))
                continue
            following = full_scores(MODEL, instance, [*path, 0])[-1].double().log_softmax(-1).tolist()
            candidates += [
                (total + value, k, [*path, int(node)])
                for node, value in zip(instance.nodes, following, strict=True)
                if value > -np.inf
            ]
        of_first = [candidate for candidate in candidates if candidate[1] == 0]
        first = max(of_first or candidates)
        others = sorted((c for c in candidates if c is not first), reverse=True)[: width - 1]
        beam = []
        cheapest: dict[Any, Any] = {}
        for total, _, path in [first, *others]:
            load = sum(demands[c] for c in itertools.takewhile(bool, path[::-1]))
            state = (frozenset(path), path[-1], load) if not ended(path) else tuple(path)
            price = sum(float(city.costs(np.array(leg))[0, 1]) for leg in itertools.pairwise(path))
            if state in cheapest and cheapest[state][0] <= price:
                beam.append(None)
                continue
            if state in cheapest:
                beam[cheapest[state][1]] = None
            cheapest[state] = price, len(beam)
            beam.append((total, path))
        left = [entry for entry in beam if entry]
        if all(ended(path) for _, path in left):
            return [path for _, path in sorted(left, reverse=True)]


# --- memory, precision, bad input


def test_a_network_in_bf16_answers_feasibly() -> None:
    """Keys take half the memory; choices are made in full precision."""
    for instance, decoded in zip(MIXED, run(MIXED, model=network().to_bf16(), samples=3), strict=True):
        for k in range(3):
            assert infeasibility(instance, decoded.solution(k)) is None


@pytest.mark.parametrize(
    ("strategy", "options", "message"),
    [
        (Greedy(), {"samples": 3, "rotations": 2}, "greedy"),
        (Beam(2), {"samples": 3}, "width 2"),
        (Beam(4), {"first": 2}, "cannot begin with sample 2"),
        *(
            (Nucleus(), {name: number}, f"at least one .*, not {number}$")
            for name in ("samples", "rotations", "max_batch")
            for number in (0, -1)
        ),
    ],
)
def test_what_a_strategy_cannot_answer_is_refused(
    strategy: Strategy, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(McvrpError, match=message):
        run(MIXED, strategy, **options)
    assert run([], strategy) == []


def test_another_city_is_refused_by_name() -> None:
    elsewhere = City.uniform(40, seed=4)
    with pytest.raises(McvrpError, match=elsewhere.city_id):
        run([InstanceStream(elsewhere, 1, "test", Rules(capacity=(12, 25)))(5, 0)])
    with pytest.raises(McvrpError, match="41 nodes"):
        decode(MODEL, City.uniform(50, seed=3), [], strategy=Greedy())


@pytest.mark.parametrize("rotations", [1, 3, 100])
def test_samples_in_portions_are_the_samples_at_once(rotations: int) -> None:
    """A few samples and then the rest are what they would have been together."""
    together = run(MIXED, samples=11, rotations=rotations, seed=4)
    portions = [
        run(MIXED, samples=k, first=f, rotations=rotations, seed=4) for f, k in ((0, 1), (1, 4), (5, 6))
    ]
    for whole, *parts in zip(together, *portions, strict=True):
        np.testing.assert_allclose(np.concatenate([part.costs for part in parts]), whole.costs, atol=1e-9)


class InTheirOrder(Independent):
    """The first customer that is allowed, else the depot."""

    kind: ClassVar[str] = "first"
    description: ClassVar[str] = "the first that is allowed"

    def choose(self, scores: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
        customers = scores[..., 1:].isfinite()
        return torch.where(customers.any(-1), customers.int().argmax(-1) + 1, 0)


def test_nobody_is_left_out_however_much_is_asked_for() -> None:
    """Beyond 2**24 no float is odd: 65535 upon 65535 would count too high to miss the last customer."""
    city = City.uniform(300, seed=1)
    model = FmMcvrp(NetworkConfig(301, dim=8, heads=1, encoder_layers=1, decoder_layers=1, ff=8)).eval()
    demands = np.array([65535] * 299 + [1])
    instance = Instance(city.city_id, np.arange(1, 301, dtype=np.uint32), demands, 65535)
    (decoded,) = decode(model, city, [instance], strategy=InTheirOrder())
    assert infeasibility(instance, decoded.best) is None
