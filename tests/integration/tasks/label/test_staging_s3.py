"""Requests of a shard in an object store: those of its chunks, and those of its merge, at 100 ms each."""

from __future__ import annotations

import time

import pytest

from mcvrp.storage import layout
from mcvrp.storage.labels.label_files import LabelFile, write_table
from mcvrp.storage.labels.schema import label_table
from mcvrp.storage.store.parallel import THREADS, in_parallel
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label import solving, worker
from mcvrp.tasks.label.driver import _MERGE_LIMIT
from mcvrp.tasks.label.plan import CHUNKS_PER_SHARD
from mcvrp.tasks.label.spec import LabelSpec
from mcvrp.tasks.label.work import Unit
from mcvrp.tasks.label.worker import merge_shard
from tests.support.labels import CITY, N, some_label, unit_receipt
from tests.support.s3_proxy import Proxy

ROWS = 2 * CHUNKS_PER_SHARD
LABELS = [some_label(i) for i in range(ROWS)]
SHARD = layout.label_shard("d", N, 0)
SECONDS = 0.1  # per request


@pytest.fixture
def distant(proxy: Proxy, s3_uri: str, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store behind the proxy, which counts all requests; each waits before it is forwarded."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
    really = Proxy.forward

    def forward(*arguments: object) -> object:
        time.sleep(SECONDS)
        return really(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Proxy, "forward", forward)
    return Store.open(s3_uri)


def test_a_merge_reads_its_chunks_in_parallel(distant: Store, proxy: Proxy) -> None:
    """One request per chunk, as many at once as there are threads, and three for the shard."""

    def staged(start: int) -> LabelFile:
        path = layout.staged_chunk("d", N, start, start + 2)
        return write_table(distant, path, CITY, "spec", N, label_table(LABELS[start : start + 2]))

    sources = list(in_parallel(staged, range(0, ROWS, 2)))
    before, proxy.most = proxy.served, 0
    merge_shard(distant, CITY, "spec", SHARD, N, 0, ROWS, sources)
    assert proxy.served - before == len(sources) + 3  # its own: look, write, one deletion of all
    assert proxy.most > THREADS // 2  # at least: a busy machine begins them one after the other
    assert (len(sources) / THREADS + 3) * SECONDS < _MERGE_LIMIT / 10
    assert distant.list("") == [SHARD]


def test_a_unit_asks_twice_per_write(distant: Store, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at the start, then a read and a write at each time its chunk grows."""
    monkeypatch.setattr(solving, "attempting", lambda *_: lambda i, seed: LABELS[i])
    monkeypatch.setattr(worker, "PUBLISH_SECONDS", -1.0)
    spec = LabelSpec(dataset="d", smallest=N, largest=N, count=ROWS, iterations=5, capacity=(30, 39))
    before = proxy.served
    unit_receipt(distant, CITY, spec.recipe(CITY), Unit(N, 0, 4, seconds=4.0))
    assert proxy.served - before == 1 + 2 * 4
