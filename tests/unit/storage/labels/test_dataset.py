"""Datasets: what readers see of files of rows, of which some were merged into others."""

from __future__ import annotations

import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.storage.labels.dataset import Dataset, load_labels
from mcvrp.storage.store.store import Store
from tests.support.datasets import count_footers, fill, label_spec, make_dataset
from tests.support.labels import N


def test_rows_of_two_files_are_never_read_twice(store: Store) -> None:
    """As two drivers with other numbers of instances might leave them."""
    fill(store, 0, 6)
    fill(store, 4, 12)
    with pytest.raises(McvrpError, match="has 6 of the 12 labels of n=20: run mcvrp label"):
        load_labels(store, "d", N)


def test_footers_are_read_once_and_names_are_enough_to_read_rows(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_dataset(store, label_spec())
    footers, dataset = count_footers(monkeypatch), Dataset.open(store, "d")
    assert dataset.sizes() == [20, 21]
    assert len(dataset.labels(20)) == 10
    assert not footers
    for _ in range(2):
        assert dataset.fingerprint() == Dataset.open(store, "d").fingerprint() or footers
        assert len(dataset.label_files) == 4
    assert max(footers.values()) <= 3
