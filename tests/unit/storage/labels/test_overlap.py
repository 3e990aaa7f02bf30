"""Instances that two datasets share."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from mcvrp.model.errors import McvrpError
from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import Instance
from mcvrp.storage import layout
from mcvrp.storage.labels.overlap import Keys, dataset_keys
from mcvrp.storage.store.store import Store
from mcvrp.tasks.benchmark.run import require_unseen
from mcvrp.tasks.benchmark.spec import BenchmarkSpec
from tests.support.datasets import CITY, label_path, label_spec, make_dataset


@given(
    here=st.sets(st.integers(0, 400), min_size=1, max_size=30),
    there=st.sets(st.integers(0, 400), min_size=1, max_size=30),
)
def test_shared_instances_are_those_of_both(here: set[int], there: set[int]) -> None:
    stream = InstanceStream(CITY, 1, "train")
    ours = Keys.of((i, stream(20, i)) for i in here)
    theirs = Keys.of((1000 - i, stream(20, i)) for i in there)
    mine, others = ours.shared(theirs)
    assert dict(zip(mine.tolist(), others.tolist(), strict=True)) == {i: 1000 - i for i in here & there}


def test_a_key_depends_on_every_part_of_an_instance() -> None:
    one = InstanceStream(CITY, 1, "train")(20, 0)
    stranger = min(set(range(1, 61)) - set(one.ids.tolist()))
    ids = np.array(sorted([stranger, *one.ids.tolist()[1:]]), dtype=np.uint32)
    demands = one.demands.copy()
    demands[5] = demands[5] % 9 + 1
    others = [
        Instance(CITY.city_id, ids, one.demands, one.capacity),
        Instance(CITY.city_id, one.ids, demands, one.capacity),
        Instance(CITY.city_id, one.ids, np.roll(one.demands, 1), one.capacity),
        Instance(CITY.city_id, one.ids, one.demands, one.capacity + 1),
        InstanceStream(CITY, 1, "test")(20, 0),
    ]
    assert len(set(Keys.of(enumerate([one, *others])).keys.tolist())) == 6


def test_a_dataset_has_the_keys_of_its_spec(store: Store) -> None:
    stream = InstanceStream(CITY, 1, "train")
    expected = Keys.of((i, stream(20, i)) for i in range(10))
    for dataset, rows in (("a", 3), ("b", 100)):
        make_dataset(store, label_spec(dataset=dataset, shard_rows=rows))
        store.put(f"{layout.size_dir(dataset, 20)}/notes.txt", b"no labels")
        stored = dataset_keys(store, dataset, 20)
        assert stored.keys.tolist() == expected.keys.tolist()
        assert stored.index.tolist() == expected.index.tolist()
    assert len(dataset_keys(store, "a", 55).index) == 0


def test_a_file_that_cannot_be_read_is_named(store: Store) -> None:
    make_dataset(store, label_spec())
    store.put(label_path(1), b"no Parquet")
    with pytest.raises(
        McvrpError, match=r"rows-00000006-00000010\.parquet cannot be read .*: run mcvrp verify"
    ):
        dataset_keys(store, "d", 20)


def test_a_benchmark_on_training_data_is_refused(store: Store) -> None:
    benchmark = BenchmarkSpec(sizes=(20, 30), instances=8, seed=1)
    make_dataset(store, label_spec())
    require_unseen(store, CITY, benchmark, "d")
    require_unseen(store, CITY, benchmark, "no-longer-there")
    make_dataset(store, label_spec(dataset="t", split="test"))
    named = r"8 of 8 test instances of n=20 .* \(n=20, i=0\), instance \(n=20, i=0\) of dataset 't'"
    with pytest.raises(McvrpError, match=named):
        require_unseen(store, CITY, benchmark, "t")
    require_unseen(store, CITY, BenchmarkSpec(sizes=(20,), instances=8, seed=2), "t")
