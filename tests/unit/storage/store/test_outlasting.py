"""A store that outlasts silence: each method does its work once the store answers."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mcvrp.model.errors import IncompleteError, McvrpError
from mcvrp.storage.store import connections
from mcvrp.storage.store.errors import LeaseLost, StoreSilent
from mcvrp.storage.store.lease import holding
from mcvrp.storage.store.store import Store, StoreError, StoreUnavailable
from tests.support.datasets import everything
from tests.support.silent_store import Outage

METHODS: dict[str, Callable[[Store], object]] = {
    "get": lambda store: store.get("a"),
    "find": lambda store: store.find("a"),
    "find_tagged": lambda store: store.find_tagged("a"),
    "get_tagged": lambda store: store.get_tagged("a"),
    "get_json": lambda store: store.get_json("a"),
    "exists": lambda store: store.exists("a"),
    "size": lambda store: store.size("a"),
    "stat": lambda store: store.stat("a").size,
    "folders": lambda store: store.folders(""),
    "list": lambda store: store.list(""),
    "put": lambda store: store.put("b", b"2"),
    "put_json": lambda store: store.put_json("b", [2]),
    "put_new": lambda store: store.put_new("b", b"2"),
    "put_new of another": lambda store: store.put_new("a", b"2"),
    "swap": lambda store: store.swap("a", b"2", store.get_tagged("a")[1]),
    "swap of another": lambda store: store.swap("a", b"2", "no tag of it"),
    "move": lambda store: store.move("a", "d/b"),
    "move over another": lambda store: store.move("a", "c/file"),
    "delete": lambda store: store.delete("a"),
    "delete files": lambda store: store.delete_files(["a", "none", "c/file"]),
    "delete a folder": lambda store: store.delete("c"),
    "read a stream": lambda store: store.open_input("a").read(),
}


def filled(folder: Path) -> Store:
    store = Store.open(folder)
    store.put("a", b"1")
    store.put("c/file", b"3")
    return store.outlasting()


@pytest.mark.parametrize("lost", [False, True], ids=["unheard", "answer lost"])
@pytest.mark.parametrize("name", METHODS)
def test_every_method_outlasts_silence_at_every_request(
    tmp_path: Path, outage: Outage, name: str, lost: bool
) -> None:
    undisturbed = filled(tmp_path / "undisturbed")
    outage.begin(float("inf"))
    expected = METHODS[name](undisturbed)
    requests = outage.requests
    assert requests
    for first in range(1, requests + 1):
        store = filled(tmp_path / f"silent-{first}")
        outage.begin(first, length=3, lost=lost)
        assert METHODS[name](store) == expected
        assert outage.requests > requests
        assert everything(store) == everything(undisturbed)


def test_a_stream_resumes_at_its_position(tmp_path: Path, outage: Outage) -> None:
    table = pa.table({"a": np.random.default_rng(1).random(20_000), "b": np.arange(20_000)})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=5_000)
    store = Store.open(tmp_path).outlasting()
    store.put("a", sink.getvalue().to_pybytes())

    def read() -> pa.Table:
        with store.open_input("a") as stream:
            return pq.ParquetFile(stream).read()

    outage.begin(float("inf"))
    assert read() == table
    for first in range(1, outage.requests + 1):
        outage.begin(first)
        assert read() == table


def test_a_file_that_was_replaced_meanwhile_is_refused(tmp_path: Path, outage: Outage) -> None:
    store = Store.open(tmp_path).outlasting()
    store.put("a", b"1" * 10)
    with store.open_input("a") as stream:
        assert stream.seekable()
        stream.read(5)
        store.put("a", b"2" * 12)
        outage.begin(1)
        with pytest.raises(StoreError, match="was replaced while it was read: run the same command again"):
            stream.read(5)


def test_silence_is_outlasted_for_a_time_and_not_by_default(
    store: Store, outage: Outage, monkeypatch: pytest.MonkeyPatch
) -> None:
    outage.begin(1, length=10**9)
    with pytest.raises(StoreUnavailable):
        store.get("a")
    with pytest.raises(StoreSilent, match=r"has not answered for 0 minutes .*the same command") as caught:
        store.outlasting(0.01).get("a")
    assert isinstance(caught.value, IncompleteError)
    assert caught.value.exit_code == 1
    assert not isinstance(caught.value, StoreUnavailable)


def test_a_permanent_error_is_raised_at_once(tmp_path: Path) -> None:
    store = Store.open(tmp_path).outlasting()
    with pytest.raises(McvrpError, match="there is no"):
        store.get("a")
    with pytest.raises(McvrpError, match="there is no"):
        store.move("a", "b")
    with pytest.raises(McvrpError, match="leads out of the store"):
        store.get("../a")


def test_the_waiting_time_is_pickled_and_not_compared(tmp_path: Path) -> None:
    store = Store.open(tmp_path).outlasting(7)
    assert pickle.loads(pickle.dumps(store)).silence == 7
    assert store == Store.open(tmp_path)
    assert store.outlasting(0).silence == 0


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Addresses of the connections that are made."""
    addresses: list[str] = []
    connect = connections._files

    def counted(uri: str, *, probing: bool) -> connections.Files:
        addresses.append(uri)
        return connect(uri, probing=probing)

    monkeypatch.setattr(connections, "_files", counted)
    return addresses


def test_each_store_has_a_connection_of_its_own(tmp_path: Path, made: list[str]) -> None:
    one, other = Store.open(tmp_path / "one"), Store.open(tmp_path / "other")
    one.put("a", b"1")
    other.put("a", b"1")
    made.clear()
    again = Store.open(tmp_path / "one")
    assert made == [again.uri]
    for store in (one, other, one.outlasting(), other.outlasting(0)):
        store.get("a")
        store.probe()
    assert made == [again.uri]


def test_copies_in_another_process_share_a_connection(tmp_path: Path, made: list[str]) -> None:
    message = pickle.dumps(Store(str(tmp_path)))
    for _ in range(3):
        assert pickle.loads(message).list("") == []
    assert made == [str(tmp_path)]


def test_a_store_outlasts_silence_with_one_connection(tmp_path: Path, outage: Outage) -> None:
    store = filled(tmp_path)
    files = store._connection.files()
    outage.begin(1)
    assert store.get("a") == b"1"
    assert store._connection.files() is files


def test_a_lease_lost_in_the_silence_stops_the_write(tmp_path: Path, outage: Outage) -> None:
    store = Store.open(tmp_path).outlasting()
    with holding(store, "lease", "it is done"):
        Path(store.uri, "lease").write_text("{}")
        outage.begin(1)
        with pytest.raises(LeaseLost, match="now names"):
            store.put("a", b"1")
    assert not store.exists("a")


def test_a_lease_that_could_not_be_released_is_not_held(tmp_path: Path, outage: Outage) -> None:
    store = Store.open(tmp_path).outlasting()
    with holding(store, "lease", "it is done"):
        outage.begin(1, length=100)
    assert outage.requests
    outage.begin(float("inf"))
    assert store.exists("lease")
    with holding(store, "lease", "it is done") as lease:
        lease.check()
        with pytest.raises(McvrpError, match="it is done by process"), holding(store, "lease", "it is done"):
            pass
    assert not store.exists("lease")
