"""The manifest of a dataset in object storage: no shard is downloaded twice, none that was just written."""

from __future__ import annotations

from collections.abc import Iterator
from http.client import HTTPResponse
from typing import Any

import pytest

from mcvrp.storage import layout
from mcvrp.storage.labels.label_files import write_labels
from mcvrp.storage.labels.manifest import rebuild_manifest
from mcvrp.storage.labels.shards import ShardList
from mcvrp.storage.labels.statistics import read_statistics
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.spec import LabelSpec
from mcvrp.tasks.label.stage import label_missing
from mcvrp.tasks.label.statistics import current_statistics
from tests.support.labels import CITY, N, some_label
from tests.support.s3_proxy import Proxy
from tests.support.s3_server import S3Server

SHARDS, ROWS = 20, 3


class Downloads(Proxy):
    """Proxy that counts the downloads of shards, and refuses the next ``refusals`` of them."""

    def __init__(self, target: str) -> None:
        super().__init__(target)
        self.shards, self.refusals = list[str](), 0

    def next_fault(self, method: str, path: str) -> str:
        if self.refusals and _is_shard(method, path):
            self.refusals -= 1
            self.shards.append(path)
            return "503 SlowDown"
        return super().next_fault(method, path)

    def forward(self, handler: Any, length: int) -> HTTPResponse:
        response = super().forward(handler, length)
        if response.status < 300 and _is_shard(handler.command, handler.path):
            self.shards.append(handler.path)
        return response


def _is_shard(method: str, path: str) -> bool:
    return method == "GET" and "/data/" in path and path.partition("?")[0].endswith(".parquet")


@pytest.fixture
def downloads(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Downloads]:
    proxy = Downloads(s3.endpoint)
    for name, value in s3.environment(endpoint=proxy.endpoint).items():
        monkeypatch.setenv(name, value)
    yield proxy
    proxy.close()


@pytest.fixture
def bucket(s3: S3Server, downloads: Downloads) -> Store:
    return Store.open(f"s3://{s3.bucket()}/store")


def test_a_rebuild_from_nothing_downloads_each_shard_once(bucket: Store, downloads: Downloads) -> None:
    """Refused requests are repeated, and no others: the rebuild resumes with the object that was refused."""
    for k in range(SHARDS):
        labels = [some_label(i) for i in range(k * ROWS, (k + 1) * ROWS)]
        write_labels(bucket, layout.label_shard("d", N, k), CITY, "spec", labels)
    downloads.refusals = 2
    rebuild_manifest(bucket, "d")
    assert (len(downloads.shards), len(set(downloads.shards))) == (SHARDS + 2, SHARDS)
    assert bucket.get_json(layout.manifest("d"))["rows"] == SHARDS * ROWS


def test_a_run_downloads_nothing_that_it_has_written(bucket: Store, downloads: Downloads) -> None:
    """Manifest, list and card are made from receipts, and say what reading the shards would say."""
    counts = {"count": SHARDS * ROWS, "shard_rows": ROWS, "iterations": 5}
    spec = LabelSpec.model_validate({"dataset": "d", "smallest": N, "largest": N, **counts})
    assert label_missing(bucket, CITY, spec).rows == SHARDS * ROWS
    assert downloads.shards == []
    manifest, shards = bucket.get(layout.manifest("d")), list(ShardList(bucket, "d"))
    statistics = read_statistics(bucket, "d")
    assert len(shards) == SHARDS
    bucket.delete(layout.shard_list("d"))
    bucket.delete(layout.label_statistics("d"))
    rebuild_manifest(bucket, "d")
    assert bucket.get(layout.manifest("d")) == manifest
    assert list(ShardList(bucket, "d")) == shards
    assert current_statistics(bucket, "d", []) == statistics
