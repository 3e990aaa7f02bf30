"""A server in trouble: temporary errors are outlasted, permanent ones reported, no object is half-written."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from mcvrp.storage.store import s3 as s3_objects
from mcvrp.storage.store.lease import holding
from mcvrp.storage.store.s3 import Patience
from mcvrp.storage.store.store import Store, StoreUnavailable
from tests.support.s3_proxy import Proxy
from tests.support.s3_server import S3Server

SHORT = Patience(retries=1.5, silence=1.0)


@pytest.fixture
def troubled(s3: S3Server, proxy: Proxy, s3_uri: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A store behind the proxy, with a short patience."""
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
    lambda store: store.get_end("a", 1),
]
WRITES: list[Callable[[Store], object]] = [
    lambda store: store.put("b", b"2"),
    lambda store: store.put_new("c", b"2"),
    lambda store: store.put_new("a", b"2"),
    lambda store: store.delete_files(["a", "none"]),
]


@pytest.mark.parametrize(
    "fault", ["503 SlowDown", "429 TooManyRequests", "reset", "cut download", "lose answer"]
)
def test_every_request_is_tried_again(troubled: Store, proxy: Proxy, fault: str) -> None:
    troubled.put("a", b"1")
    results = []
    for work in READS + WRITES:
        proxy.fail(fault, times=2 if fault[0].isdigit() else 1)  # of a connection that broke
        results.append(work(troubled))
        proxy.repair()
    assert proxy.failed >= len(READS)
    assert results == [b"1", 1, ["a"], True, b"1", None, True, False, None]
    assert troubled.list("") == ["b", "c"]


def test_a_server_that_is_busy_for_a_while_is_waited_for(troubled: Store, proxy: Proxy) -> None:
    troubled.put("a", b"1")
    proxy.fail("503")
    timer = threading.Timer(0.6, proxy.repair)
    timer.start()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda work: work(troubled), READS + WRITES[:2]))
    timer.join()
    assert proxy.failed >= 7


@pytest.mark.parametrize("fault", ["503", "reset", "hang"])
def test_lasting_trouble_is_reported_in_time(
    troubled: Store, proxy: Proxy, fault: str, plain: Callable[[Store], dict[str, bytes]]
) -> None:
    troubled.put("a", b"1")
    before = plain(troubled)
    proxy.fail(fault)

    def check(work: Callable[[Store], object]) -> None:
        with pytest.raises(StoreUnavailable, match="once the store answers") as caught:
            work(troubled)
        assert "\n" not in str(caught.value)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(check, READS + WRITES[:2]))
    proxy.repair()
    assert plain(troubled) == before
    assert troubled.get("a") == b"1"


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
    assert troubled.get("a") == data


def test_a_download_that_is_cut_is_repeated_or_refused(troubled: Store, proxy: Proxy) -> None:
    data = np.random.default_rng(1).bytes(1_600_000)
    troubled.put("a", data)
    end = 1_000_000
    for read, expected in (
        (lambda: troubled.get("a"), data),
        (lambda: troubled.get_end("a", end), data[-end:]),
    ):
        proxy.fail("cut download", methods=("GET",), times=1)
        assert read() == expected
        proxy.fail("cut download", methods=("GET",))
        with pytest.raises(StoreUnavailable):
            read()
        proxy.repair()


@pytest.mark.parametrize("fault", ["lose answer", "hang"])
def test_a_creation_whose_answer_was_lost_succeeds(troubled: Store, proxy: Proxy, fault: str) -> None:
    """One that was not carried out succeeds at its next try; that of another is not taken for ours."""
    proxy.fail(fault, methods=("PUT",), times=1)
    assert troubled.put_new("a", b"1")
    proxy.fail("reset", methods=("PUT",), times=1)
    assert not troubled.put_new("a", b"2")
    proxy.fail("409 ConditionalRequestConflict", methods=("PUT",), times=1)
    assert troubled.put_new("b", b"2")
    assert (troubled.get("a"), troubled.list("")) == (b"1", ["a", "b"])


def test_a_lease_outlasts_an_outage(troubled: Store, proxy: Proxy) -> None:
    with holding(troubled, ".lease", "it is done", ttl=1.0) as lease:
        proxy.fail("lose answer")
        time.sleep(2.5)
        proxy.repair()
        lease.confirm()
    assert troubled.list("") == []


def test_a_request_that_waits_is_interrupted(troubled: Store, proxy: Proxy) -> None:
    """By Ctrl-C, at once: the library would finish its retries first."""
    proxy.fail("503")
    code = (
        "import os, signal, sys, threading; from mcvrp.storage.store.store import Store\n"
        "threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "Store(sys.argv[1]).get('a')"
    )
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code, troubled.uri], capture_output=True, text=True)
    assert "KeyboardInterrupt" in done.stderr
    assert time.monotonic() - began < 60  # the patience of a command is three minutes
