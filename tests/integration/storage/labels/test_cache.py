"""The cache of labels read from an object store."""

from __future__ import annotations

import shutil
from dataclasses import fields
from pathlib import Path

import numpy as np

from mcvrp.model.problem import City
from mcvrp.storage.labels.cache import LabelCache
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.layout import label_shard
from mcvrp.storage.store.store import Store
from tests.support.training import write_dataset

CITY = City.uniform(60, seed=3)
COUNTS = {20: 6, 21: 6}


def test_a_dataset_on_s3_is_read_once(s3_uri: str, tmp_path: Path) -> None:
    remote, local = Store.open(s3_uri), Store.open(tmp_path / "store")
    for store in (remote, local):
        write_dataset(store, CITY, range(20, 22), COUNTS[20])
    fingerprint = Dataset.open(remote, "tiny").fingerprint()
    assert fingerprint == Dataset.open(local, "tiny").fingerprint()
    with (
        LabelCache.open(tmp_path / "cache", remote, "tiny", fingerprint, COUNTS) as one,
        LabelCache.open(tmp_path / "cache", local, "tiny", fingerprint, COUNTS) as other,
    ):
        for n in COUNTS:
            for field in fields(one.labels(n)):
                arrays = [getattr(cache.labels(n), field.name) for cache in (one, other)]
                assert np.array_equal(*arrays), field.name
    for n in COUNTS:
        remote.delete(label_shard("tiny", n, 0))
    shutil.rmtree(local.uri)
    for store in (remote, local):
        with LabelCache.open(tmp_path / "cache", store, "tiny", fingerprint, COUNTS) as cache:
            assert len(cache.labels(21)) == COUNTS[21]
