"""T_i^trunc: the random subset of a size that phase I trains on, reproducible from the data alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mcvrp.model.curriculum import Curriculum
from mcvrp.storage.labels.dataset import Dataset, load_labels
from mcvrp.storage.store.store import Store
from mcvrp.tasks.train.spec import TrainSpec
from tests.support.datasets import label_spec, make_dataset

SIZE, ROWS, KEPT = 20, 60, 16


def curriculum(store: Store, dataset: str) -> Curriculum:
    """The curriculum of a phase that truncates every size to `KEPT` rows of this dataset."""
    phase = {"name": "I", "first": SIZE, "last": SIZE, "trunc": KEPT, "trains": "encoder", "lr": 0.01}
    network = {"dim": 8, "heads": 1, "encoder_layers": 1, "decoder_layers": 1, "ff": 8}
    spec = TrainSpec.model_validate(
        {"dataset": dataset, "batch": 4, "smallest": SIZE, "network": network, "phases": [phase]}
    )
    return spec.curriculum("I", [ROWS], Dataset.open(store, dataset).fingerprint())


def test_the_subset_does_not_depend_on_the_files(tmp_path: Path) -> None:
    """The same labels in files of 7 rows and in one: the same rows, and the same instances in them."""
    store = Store.open(tmp_path)
    chosen = []
    for dataset, shard_rows in (("a", 7), ("b", 1000)):
        make_dataset(store, label_spec(dataset=dataset, largest=SIZE, count=ROWS, shard_rows=shard_rows))
        rows = curriculum(store, dataset).subset(SIZE)
        chosen.append((rows, load_labels(store, dataset, SIZE).ids[rows]))
    (rows, ids), (other_rows, other_ids) = chosen
    assert rows.tolist() == other_rows.tolist()
    assert np.array_equal(ids, other_ids)
    assert len(set(rows.tolist())) == KEPT


def test_other_labels_have_another_subset(tmp_path: Path) -> None:
    """The rows are drawn separately for each dataset, and are not the first ones."""
    store = Store.open(tmp_path)
    for dataset, seed in (("a", 1), ("b", 2)):
        make_dataset(store, label_spec(dataset=dataset, largest=SIZE, count=ROWS, seed=seed))
    subsets = [curriculum(store, dataset).subset(SIZE).tolist() for dataset in ("a", "b")]
    assert subsets[0] != subsets[1]
    assert list(range(KEPT)) not in subsets


def test_every_row_is_as_likely() -> None:
    """Over many datasets each row is in as many subsets as chance would have it."""
    counts = np.zeros(ROWS)
    tries = 600
    for k in range(tries):
        phase = Curriculum((ROWS,), SIZE, SIZE, SIZE, 4, ("order",), trunc_stream=(str(k),), trunc=KEPT)
        counts[phase.subset(SIZE)] += 1
    expected = tries * KEPT / ROWS
    assert np.abs(counts - expected).max() < 5 * np.sqrt(expected)
