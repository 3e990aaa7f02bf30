"""T_i^trunc: the random subset of a size for phase I, reproducible from the data alone."""

from __future__ import annotations

import numpy as np

from mcvrp.model.curriculum import Curriculum
from mcvrp.storage.labels.dataset import Dataset, load_labels
from mcvrp.storage.store.store import Store
from mcvrp.tasks.train.spec import TrainSpec
from tests.support.datasets import label_spec, make_dataset

SIZE, ROWS, KEPT = 20, 60, 16


def curriculum(store: Store, dataset: str) -> Curriculum:
    phase = {"name": "I", "first": SIZE, "last": SIZE, "trunc": KEPT, "trains": "encoder", "lr": 0.01}
    network = {"dim": 8, "heads": 1, "encoder_layers": 1, "decoder_layers": 1, "ff": 8}
    spec = TrainSpec.model_validate(
        {"dataset": dataset, "batch": 4, "smallest": SIZE, "network": network, "phases": [phase]}
    )
    return spec.curriculum("I", [ROWS], Dataset.open(store, dataset).fingerprint())


def test_the_subset_depends_on_the_labels_alone(store: Store) -> None:
    """Not on the size of files; and it is not the first rows."""
    for dataset, rows, seed in (("a", 7, 1), ("b", 1000, 1), ("other", 1000, 2)):
        changes = {"dataset": dataset, "shard_rows": rows, "seed": seed}
        make_dataset(store, label_spec(largest=SIZE, count=ROWS, **changes))
    a, b, other = (curriculum(store, dataset).subset(SIZE) for dataset in ("a", "b", "other"))
    assert a.tolist() == b.tolist()
    assert np.array_equal(load_labels(store, "a", SIZE).ids[a], load_labels(store, "b", SIZE).ids[b])
    assert len(set(a.tolist())) == KEPT
    assert a.tolist() != other.tolist()
    assert list(range(KEPT)) not in (a.tolist(), other.tolist())


def test_every_row_is_as_likely() -> None:
    counts = np.zeros(ROWS)
    tries = 600
    for k in range(tries):
        phase = Curriculum((ROWS,), SIZE, SIZE, SIZE, 4, ("order",), trunc_stream=(str(k),), trunc=KEPT)
        counts[phase.subset(SIZE)] += 1
    expected = tries * KEPT / ROWS
    assert np.abs(counts - expected).max() < 5 * np.sqrt(expected)
