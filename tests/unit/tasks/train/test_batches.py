"""Stream of samples: the stored rows, rotations, ranks, micro-batches, prefetching."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from mcvrp.model.canonical_form import route_angles
from mcvrp.model.curriculum import Samples
from mcvrp.model.features import Batch, CityTable, rolled_path
from mcvrp.model.problem import Instance, Solution
from mcvrp.storage.labels.cache import LabelCache, cached_labels
from mcvrp.storage.labels.dataset import Dataset, load_labels
from mcvrp.storage.store.store import Store
from mcvrp.tasks.train.batches import SampleStream
from tests.support.batches import batch_of
from tests.support.training import CITY, small_spec, write_dataset

COUNT = 30
TENSORS = ("ids", "demands", "capacity", "lengths", "path", "path_lengths")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store.open(tmp_path_factory.mktemp("store"))
    write_dataset(store, CITY, range(20, 23), COUNT)
    return store


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory, store: Store) -> LabelCache:
    counts = dict.fromkeys(range(20, 23), COUNT)
    folder = tmp_path_factory.mktemp("cache")
    return cached_labels(folder, store, "tiny", Dataset.open(store, "tiny").fingerprint(), counts)


def stream_of(cache: LabelCache, phase: str, order: str = "paper", **options: Any) -> SampleStream:
    curriculum = small_spec(order=order).curriculum(phase, (COUNT,) * 3, "data")
    return SampleStream(curriculum, cache, rotation=phase == "II", **options)


def stored(store: Store, samples: Samples) -> list[tuple[Instance, Solution]]:
    """Return the instances and solutions of ``samples``, read row by row."""
    pairs = []
    for size, row in zip(samples.sizes.tolist(), samples.rows.tolist(), strict=True):
        table = load_labels(store, "tiny", size)
        path = table.paths[table.offsets[row] : table.offsets[row + 1]]
        instance = Instance(CITY.city_id, table.ids[row], table.demands[row], int(table.capacities[row]))
        pairs.append((instance, Solution.from_path(path)))
    return pairs


@pytest.mark.parametrize("step", [1, 5, 12])
@pytest.mark.parametrize("order", ["paper", "bucketed"])
def test_tensors_are_the_stored_rows(store: Store, cache: LabelCache, step: int, order: str) -> None:
    """Phase I: the batch equals one that is built row by row from the curriculum."""
    stream = stream_of(cache, "I", order)
    batch = stream.global_batch(step)
    pairs = stored(store, stream.curriculum.global_batch(step))
    expected, found = batch_of(pairs), stream.tensors(batch, np.arange(12))
    for name in TENSORS:
        assert torch.equal(getattr(found, name), getattr(expected, name)), name
        assert getattr(found, name).dtype == getattr(expected, name).dtype
    assert found.angle is None
    assert found.padded == (len({instance.n for instance, _ in pairs}) > 1)
    assert batch.problem_tokens == sum(instance.n + 1 for instance, _ in pairs)
    assert batch.solution_tokens == sum(len(solution.path) - 1 for _, solution in pairs)


@pytest.mark.parametrize("step", [1, 7])
def test_rotated_routes_are_ordered_in_the_rotated_frame(store: Store, cache: LabelCache, step: int) -> None:
    """Phase II: the routes of the label, by their angle in the frame that the network sees."""
    stream = stream_of(cache, "II")
    batch = stream.global_batch(step)
    angles = stream.curriculum.angles(step).astype(np.float64)
    turned_pairs, rolled = [], 0
    pairs = stored(store, stream.curriculum.global_batch(step))
    for (instance, solution), angle in zip(pairs, angles, strict=True):
        seen = np.mod(route_angles(CITY, solution.routes) + angle, 2 * np.pi)
        turned = Solution(tuple(solution.routes[k] for k in np.argsort(seen)))
        rolled += turned != solution
        turned_pairs.append((instance, turned))
    expected, found = batch_of(turned_pairs), stream.tensors(batch, np.arange(12))
    path = rolled_path(CityTable.of(CITY), found.ids, found.path, found.path_lengths, found.angle)
    assert torch.equal(path, expected.path)
    assert rolled > 0
    np.testing.assert_array_equal(found.angle.numpy(), stream.curriculum.angles(step))


def test_shuffled_routes_are_the_label_in_another_order(cache: LabelCache) -> None:
    """Whole routes change places, differently at each step."""
    plain, stream = (stream_of(cache, "II", shuffled=shuffled) for shuffled in (False, True))
    rows = np.arange(12)
    kept, found = (each.tensors(each.global_batch(3), rows) for each in (plain, stream))
    for name in TENSORS:
        assert name == "path" or torch.equal(getattr(found, name), getattr(kept, name)), name
    assert kept.by_angle
    assert not found.by_angle  # sorting by angle would undo the shuffling
    moved = 0
    for before, after, tokens in zip(kept.path, found.path, found.path_lengths.tolist(), strict=True):
        assert not after[tokens:].any()
        one, other = (Solution.from_path(path[:tokens].numpy()).routes for path in (before, after))
        assert sorted(one) == sorted(other)
        moved += one != other
    assert moved > 6
    assert not torch.equal(stream.tensors(stream.global_batch(4), rows).path, found.path)


@pytest.mark.parametrize("order", ["paper", "bucketed"])
@pytest.mark.parametrize(
    "sharing",
    [{}, {"ranks": 2, "micro_tokens": 200, "shuffled": True}, {"ranks": 3, "micro_tokens": 100}],
)
def test_micro_batches_of_all_ranks_are_the_global_batch(
    cache: LabelCache, order: str, sharing: dict[str, Any]
) -> None:
    """However a batch is divided, only the padding differs."""
    whole = stream_of(cache, "II", order, shuffled="shuffled" in sharing)
    stream = stream_of(cache, "II", order, **sharing)
    batch = stream.global_batch(3)
    everything = whole.tensors(whole.global_batch(3), np.arange(12))
    seen = list[int]()
    for rank in range(stream.ranks):
        pieces = next(stream.steps(3, 3, rank))[1]
        for rows, part in zip(batch.pieces[rank], pieces, strict=True):
            for place, row in enumerate(rows.tolist()):
                n, tokens = int(everything.lengths[row]), int(everything.path_lengths[row])
                assert torch.equal(part.ids[place, :n], everything.ids[row, :n])
                assert torch.equal(part.path[place, :tokens], everything.path[row, :tokens])
                assert part.angle[place] == everything.angle[row]
            seen += rows.tolist()
            assert part.padded == bool((part.lengths < part.ids.shape[1]).any())
            assert order == "paper" or not part.padded
    assert sorted(seen) == list(range(12))


def test_prefetched_steps_are_the_same(cache: LabelCache) -> None:
    """An error in the prefetching thread is raised by the stream."""
    stream = stream_of(cache, "II", ranks=2, micro_tokens=150)
    plain, ahead = (list(stream.steps(2, 6, 1, ahead)) for ahead in (False, True))
    assert len(plain) == len(ahead) == 5
    for (_, pieces), (_, copies) in zip(plain, ahead, strict=True):
        assert all(_same(a, b) for a, b in zip(pieces, copies, strict=True))
    with pytest.raises(IndexError):
        list(stream.steps(stream.curriculum.steps, stream.curriculum.steps + 1, 0, True))


def _same(one: Batch, other: Batch) -> bool:
    return all(torch.equal(getattr(one, name), getattr(other, name)) for name in (*TENSORS, "angle"))
