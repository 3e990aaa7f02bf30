import numpy as np
import pytest
import torch

from model.problem import City, Solution, route_angles
from storage.labels import load_table
from storage.store import Store
from tasks.train_stream import SampleStream
from tests.training import small_spec, write_dataset
from tests.unit.conftest import batch_of

COUNT = 30


@pytest.fixture(scope="module")
def city():
    return City.uniform(60, seed=3)


@pytest.fixture(scope="module")
def store(tmp_path_factory, city):
    store = Store.open(tmp_path_factory.mktemp("store"))
    write_dataset(store, city, range(20, 23), COUNT)
    return store


def stream_of(store, city, phase):
    curriculum = small_spec().curriculum(phase, (COUNT,) * 3, "data")
    return SampleStream.load(store, "tiny", city, curriculum, rotation=phase == "II")


def stored(store, city, samples):
    """Return the instances and solutions of ``samples``, read row by row."""
    from model.problem import Instance

    found = []
    for size, row in zip(samples.sizes.tolist(), samples.rows.tolist(), strict=True):
        table = load_table(store, "tiny", size)
        path = table.paths[table.offsets[row] : table.offsets[row + 1]]
        instance = Instance(city.city_id, table.ids[row], table.demands[row], int(table.capacities[row]))
        found.append((instance, Solution.from_path(path)))
    return found


@pytest.mark.parametrize("step", [1, 5, 12])
def test_tensors_are_the_stored_rows(store, city, step):
    """Phase I: the batch equals one built slowly from the rows that the curriculum names."""
    stream = stream_of(store, city, "I")
    batch = stream.global_batch(step)
    pairs = stored(store, city, stream.curriculum.global_batch(step))
    expected, found = batch_of(pairs), stream.tensors(batch, slice(0, 12))
    for name in ("ids", "demands", "capacity", "lengths", "path", "path_lengths"):
        assert torch.equal(getattr(found, name), getattr(expected, name)), name
    assert found.angle is None
    assert batch.problem_tokens == sum(instance.n + 1 for instance, _ in pairs)
    assert batch.solution_tokens == sum(len(solution.path) - 1 for _, solution in pairs)


@pytest.mark.parametrize("step", [1, 7])
def test_rotated_routes_start_where_the_rotated_plane_does(store, city, step):
    """Phase II: the routes are those of the label, ordered by angle in the frame that the network sees."""
    stream = stream_of(store, city, "II")
    batch = stream.global_batch(step)
    angles = stream.curriculum.angles(step).astype(np.float64)
    turned_pairs = []
    rolled = 0
    for (instance, solution), angle in zip(
        stored(store, city, stream.curriculum.global_batch(step)), angles, strict=True
    ):
        seen = np.mod(route_angles(city, solution.routes) + angle, 2 * np.pi)
        turned = Solution(tuple(solution.routes[k] for k in np.argsort(seen)))
        rolled += turned != solution
        turned_pairs.append((instance, turned))
    expected, found = batch_of(turned_pairs), stream.tensors(batch, slice(0, 12))
    assert torch.equal(found.path, expected.path)
    assert rolled > 0
    np.testing.assert_array_equal(found.angle.numpy(), stream.curriculum.angles(step))


def test_a_part_is_a_part_of_the_whole(store, city):
    """Cut for a rank, a batch has the same samples; only padding differs, and its count is right."""
    stream = stream_of(store, city, "II")
    batch = stream.global_batch(3)
    whole = stream.tensors(batch, slice(0, 12))
    parts = [stream.tensors(batch, slice(at, at + 3)) for at in range(0, 12, 3)]
    for row in range(12):
        part, place = parts[row // 3], row % 3
        n, tokens = int(whole.lengths[row]), int(whole.path_lengths[row])
        assert torch.equal(part.ids[place, :n], whole.ids[row, :n])
        assert torch.equal(part.path[place, :tokens], whole.path[row, :tokens])
        assert part.angle[place] == whole.angle[row]
    problem, solution = batch.computed_tokens(4)
    assert problem == sum(part.ids.numel() for part in parts)
    assert solution == sum(part.path.numel() - len(part.path) for part in parts)


def test_a_truncated_phase_keeps_its_subset_only(store, city):
    """Phase I holds 24 of the 30 rows of each size in memory."""
    assert {len(table) for table in stream_of(store, city, "I").tables.values()} == {24}
    assert {len(table) for table in stream_of(store, city, "II").tables.values()} == {COUNT}
