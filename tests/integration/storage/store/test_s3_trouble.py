"""A server in trouble: temporary errors are outlasted, permanent ones reported, no object is half-written."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mcvrp.storage.store import s3 as s3_objects
from mcvrp.storage.store.lease import holding
from mcvrp.storage.store.s3 import Timeouts
from mcvrp.storage.store.store import Store, StoreUnavailable
from tests.support.s3_proxy import Proxy
from tests.support.s3_server import S3Server

SHORT = Timeouts(1.0, 1.0, 2)


@pytest.fixture
def troubled(s3: S3Server, proxy: Proxy, s3_uri: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A store behind the proxy, with short timeouts."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
    monkeypatch.setattr(s3_objects, "WORKING", SHORT)
    yield Store.open(s3_uri)
    proxy.repair()


@pytest.fixture
def plain(s3: S3Server) -> Callable[[Store], dict[str, bytes]]:
    """A look at the objects, past proxy and store."""

    def look(store: Store) -> dict[str, bytes]:
        client, (bucket, prefix) = s3.client(), store.uri.removeprefix("s3://").split("/", 1)
        objects = client.list_objects_v2(Bucket=bucket, Prefix=prefix).get("Contents", [])
        keys = [item["Key"] for item in objects]
        return {key: client.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys}

    return look


READS: list[Callable[[Store], object]] = [
    lambda store: store.get("a"),
    lambda store: store.size("a"),
    lambda store: store.list(""),
    lambda store: store.exists("a"),
    lambda store: store.open_input("a").read(),
]
WRITES: list[Callable[[Store], object]] = [
    lambda store: store.put("b", b"2"),
    lambda store: store.put_new("c", b"2"),
    lambda store: store.swap("a", b"1", store.get_tagged("a")[1]),
    lambda store: store.move("a", "d"),
    lambda store: store.delete("d"),
]


@pytest.mark.parametrize("fault", ["503", "429", "reset"])
def test_every_request_is_tried_again(troubled: Store, proxy: Proxy, fault: str) -> None:
    troubled.put("a", b"1")
    for work in READS + WRITES:
        proxy.fail(fault, times=1)
        work(troubled)
        assert proxy.failed > 0
        proxy.failed = 0
    assert troubled.list("") == ["b", "c"]


@pytest.mark.parametrize("fault", ["409 OperationAborted", "400 RequestLimitExceeded", "429 TooManyRequests"])
def test_a_write_is_tried_again_with_any_error_code_of_a_busy_server(
    troubled: Store, proxy: Proxy, fault: str
) -> None:
    troubled.put("a", b"1")
    for work in WRITES[:3]:
        proxy.fail(fault, methods=("PUT",), times=1)
        work(troubled)
    assert proxy.failed == 3
    assert troubled.list("") == ["a", "b", "c"]


def test_a_server_that_is_busy_for_a_while_is_waited_for(
    s3_uri: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
    store = Store.open(s3_uri)
    store.put("a", b"1")
    proxy.fail("503")
    timer = threading.Timer(1.0, proxy.repair)
    timer.start()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda work: work(store), READS + WRITES[:2]))
    timer.join()
    assert proxy.failed >= 7


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["503", "reset", "hang"])
def test_lasting_trouble_is_reported_in_time(
    troubled: Store, proxy: Proxy, fault: str, plain: Callable[[Store], dict[str, bytes]]
) -> None:
    troubled.put("a", b"1")
    before = plain(troubled)
    proxy.fail(fault)

    def check(work: Callable[[Store], object]) -> None:
        with pytest.raises(StoreUnavailable, match="check that it is running") as caught:
            work(troubled)
        assert "\n" not in str(caught.value)

    works = READS + WRITES[:2]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(check, works))
    # Each takes a second at most, and an operation has several, each tried twice by either of two clients.
    assert proxy.failed <= 4 * SHORT.attempts * len(works)
    proxy.repair()
    assert plain(troubled) == before
    assert troubled.get("a") == b"1"


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["503", "reset", "429 TooManyRequests", "lose answer", "cut download"])
def test_trouble_that_clients_give_up_on_is_outlasted(
    troubled: Store,
    proxy: Proxy,
    fault: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("mcvrp.storage.store.retry._FIRST_WAIT", 0.05)
    patient = troubled.outlasting()
    patient.put("a", b"1")
    results = []
    for work in READS + WRITES:
        proxy.fail(fault, times=12)
        results.append(work(patient))
        proxy.repair()
    assert results == [b"1", 1, ["a"], True, b"1", None, True, True, None, None]
    assert patient.list("") == ["b", "c"]
    if fault != "cut download":  # few answers have a body that could be cut
        assert len(caplog.messages) >= 10


def test_an_upload_that_is_cut_leaves_nothing(
    troubled: Store, proxy: Proxy, plain: Callable[[Store], dict[str, bytes]]
) -> None:
    data = os.urandom(3_000_000)
    before = plain(troubled)
    proxy.fail("cut upload", methods=("PUT",))
    with pytest.raises(StoreUnavailable):
        troubled.put("a", data)
    assert plain(troubled) == before
    proxy.fail("cut upload", methods=("PUT",), times=1)
    troubled.put("a", data)
    assert proxy.failed == 3
    assert troubled.get("a") == data


def test_a_download_that_is_cut_is_repeated_or_refused(troubled: Store, proxy: Proxy) -> None:
    table = pa.table({"a": np.random.default_rng(1).random(200_000)})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    data = sink.getvalue().to_pybytes()
    troubled.put("a", data)

    def parquet() -> pa.Table:
        with troubled.open_input("a") as stream:
            return pq.ParquetFile(stream).read()

    for read, expected in ((lambda: troubled.get("a"), data), (parquet, table)):
        proxy.fail("cut download", methods=("GET",), times=1)
        assert read() == expected
        proxy.fail("cut download", methods=("GET",))
        with pytest.raises(StoreUnavailable):
            read()
        proxy.repair()


def test_an_error_message_that_is_cut_is_trouble(troubled: Store, proxy: Proxy) -> None:
    """The client library lets another kind of error through than for a file that is cut."""
    proxy.fail("cut download", methods=("GET",), times=1)
    with pytest.raises(StoreUnavailable, match="connection lost"):
        troubled.find("nowhere")
    proxy.fail("cut download", methods=("GET",), times=1)
    assert troubled.outlasting().find("nowhere") is None
    assert proxy.failed == 2


def test_a_conditional_write_whose_answer_was_lost_succeeds(troubled: Store, proxy: Proxy) -> None:
    proxy.fail("lose answer", methods=("PUT",), times=1)
    assert troubled.put_new("a", b"1")
    _, tag = troubled.get_tagged("a")
    proxy.fail("lose answer", methods=("PUT",), times=1)
    assert troubled.swap("a", b"2", tag)
    proxy.fail("reset", methods=("PUT",), times=1)
    assert not troubled.put_new("a", b"2")
    assert troubled.get("a") == b"2"


def test_a_lease_outlasts_an_outage(troubled: Store, proxy: Proxy) -> None:
    with holding(troubled, "lease", "it is done", ttl=0.4) as lease:
        proxy.fail("lose answer")
        time.sleep(3)
        proxy.repair()
        beats = troubled.get_json("lease")["beats"]
        deadline = time.monotonic() + 30
        while troubled.get_json("lease")["beats"] == beats:
            lease.check()
            assert time.monotonic() < deadline
            time.sleep(0.1)
    assert troubled.list("") == []
