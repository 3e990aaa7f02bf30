"""The card of a dataset: its figures are those of the labels."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from mcvrp.storage import layout
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.labels.label_files import read_table, write_labels
from mcvrp.storage.labels.manifest import rebuild_manifest
from mcvrp.storage.labels.schema import table_labels
from mcvrp.storage.labels.statistics import size_statistics
from mcvrp.storage.store.store import Store
from tests.support.datasets import CITY, everything, label_path, label_spec, make_dataset, write_card_of


@pytest.fixture
def store(store: Store) -> Store:
    make_dataset(store, label_spec())
    return store


def test_statistics_are_those_of_the_labels(store: Store) -> None:
    files = Dataset.open(store, "d").label_files
    statistics = size_statistics(files)
    counts = [(size.n, size.rows, size.absent) for size in statistics]
    assert counts == [(20, 10, 0), (21, 10, 0)]
    tables = list(Dataset.open(store, "d").read_rows(20))
    costs = np.concatenate([table["cost"].to_numpy() for table in tables])
    routes = [len(row) for table in tables for row in table["routes"].to_pylist()]
    first = statistics[0]
    assert first.cost == pytest.approx(costs.mean())
    assert first.routes == pytest.approx(np.mean(routes))
    assert first.seconds == pytest.approx(sum(table["runtime"].to_numpy().sum() for table in tables))
    assert first.bytes == sum(file.bytes for file in files if file.footer.n == 20)


def test_a_card_follows_the_labels(store: Store) -> None:
    """Labels that were made again have other runtimes."""
    write_card_of(store, "d")
    before = everything(store)
    labels = table_labels(read_table(store, label_path(1, 21)), CITY.city_id)
    slower = [dataclasses.replace(label, runtime=9.0) for label in labels]
    store.delete(label_path(1, 21))
    write_labels(store, label_path(1, 21), CITY, "spec", slower)
    rebuild_manifest(Dataset.open(store, "d"))
    write_card_of(store, "d")
    changed = {path for path, data in everything(store).items() if before[path] != data}
    assert layout.card("d") in changed
