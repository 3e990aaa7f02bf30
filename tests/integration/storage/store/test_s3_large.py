"""Large objects on a slow server that refuses and breaks off: moved in parts, each part again on its own."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from mcvrp.storage.store import parallel, s3 as s3_objects
from mcvrp.storage.store.errors import StoreUnavailable
from mcvrp.storage.store.s3 import Timeouts
from mcvrp.storage.store.store import Store, StoreError
from mcvrp.storage.training.checkpoints import (
    CheckpointState,
    Moments,
    Origin,
    load_moments,
    load_weights,
    save_checkpoint,
)
from tests.support.s3_proxy import Conditions, Proxy
from tests.support.s3_server import S3Server
from tests.support.shared import until

PART = 5 * 2**20  # the smallest that S3 takes
DATA = os.urandom(64 * 10**6)
COUNT = -(-len(DATA) // PART)


@pytest.fixture
def distant(proxy: Proxy, s3_uri: str, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store behind the proxy, with small parts."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
    monkeypatch.setattr(parallel, "PART", PART)
    monkeypatch.setattr(parallel, "LARGE", 2 * PART)
    return Store.open(s3_uri)


@pytest.fixture
def uploads(s3: S3Server, s3_bucket: str) -> Callable[[], int]:
    """The number of unfinished uploads, past the proxy."""
    return lambda: len(s3.client().list_multipart_uploads(Bucket=s3_bucket).get("Uploads", []))


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_objects, "WORKING", Timeouts(2.0, 4.0, 1))
    monkeypatch.setattr("mcvrp.storage.store.retry._FIRST_WAIT", 0.05)


def test_a_large_object_takes_one_request_per_part(
    distant: Store, proxy: Proxy, uploads: Callable[[], int]
) -> None:
    with proxy.counted() as written:
        distant.put("a", DATA)
    assert written == {"MULTIPART": COUNT + 2}
    with proxy.counted() as read:
        assert distant.get("a") == DATA
    assert read == {"GET": COUNT + 1}
    assert uploads() == 0


@pytest.mark.parametrize("size", [2 * PART, 2 * PART + 1, 3 * PART])
def test_objects_around_the_limits_are_whole(distant: Store, size: int) -> None:
    distant.put("a", DATA[:size])
    assert distant.size("a") == size
    assert distant.get("a") == distant.find("a") == DATA[:size]


@pytest.mark.parametrize("direction", ["up", "down"])
def test_parts_share_the_link(distant: Store, proxy: Proxy, direction: str) -> None:
    """While one waits for its answer, others use the link; `bench_store` measures how much of it."""
    write = direction == "up"
    if not write:
        distant.put("a", DATA)
    proxy.conditions = Conditions(latency=0.03, bandwidth=20e6)
    proxy.most = 0
    distant.put("a", DATA) if write else distant.get("a")
    assert proxy.most > parallel._CONNECTIONS // 2


@pytest.mark.slow
def test_refusals_and_cut_bodies_cost_their_part_only(distant: Store, proxy: Proxy) -> None:
    proxy.conditions = Conditions(refused=0.05, cut=0.05)
    with proxy.counted() as counts:
        for name in "abc":
            distant.put(name, DATA)
            assert distant.get(name) == DATA
    assert proxy.refused >= 5
    assert counts.total() <= 3 * (2 * COUNT + 3) + proxy.refused + 1


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("fault", ["503 SlowDown", "reset", "cut upload"])
def test_an_outage_in_the_middle_costs_the_parts_in_transfer(
    distant: Store, proxy: Proxy, fault: str, uploads: Callable[[], int]
) -> None:
    """The parts that the server has are not sent again."""
    proxy.conditions = Conditions(bandwidth=20e6)

    def interrupt() -> None:
        until("parts", 60, lambda: proxy.served > before + COUNT // 2, pause=0.01)
        proxy.fail(fault)
        until("a request that fails", 60, lambda: proxy.failed, pause=0.01)  # the others are in transfer
        time.sleep(1.0)
        proxy.repair()

    for transfer in (lambda store: store.put("a", DATA), lambda store: store.get("a")):
        before = proxy.served
        breaker = threading.Thread(target=interrupt)
        breaker.start()
        with proxy.counted() as counts:
            result = transfer(distant.outlasting())
        breaker.join()
        assert result in (None, DATA)
        assert proxy.failed > 0
        # a probe per second of silence, and at most the 8 parts in transfer again
        assert counts["MULTIPART"] + counts["GET"] <= COUNT + 2 + proxy.failed + 8
        proxy.failed = 0
    assert uploads() == 0


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
def test_a_write_that_fails_leaves_neither_object_nor_parts(
    distant: Store, proxy: Proxy, uploads: Callable[[], int]
) -> None:
    distant.put("a", b"old")
    proxy.fail("503 SlowDown", methods=("PUT",))
    with pytest.raises(StoreUnavailable, match="check that it is running"):
        distant.put("a", DATA)
    assert uploads() == 0
    assert distant.get("a") == b"old"


@pytest.mark.slow
def test_a_completion_whose_answer_was_lost_is_recognized(distant: Store, proxy: Proxy) -> None:
    proxy.conditions = Conditions(bandwidth=20e6)

    def lose_last() -> None:
        until("a part", 10, lambda: proxy.counts["MULTIPART"] > 1, pause=0.01)
        proxy.fail("lose answer", methods=("POST",), times=1)

    loser = threading.Thread(target=lose_last)
    loser.start()
    distant.put("a", DATA)
    loser.join()
    assert proxy.failed == 1
    assert distant.get("a") == DATA


def test_an_object_that_is_replaced_while_it_is_read_is_not_mixed(
    distant: Store, proxy: Proxy, s3: S3Server
) -> None:
    distant.put("a", DATA)
    bucket, _, prefix = distant.uri.removeprefix("s3://").partition("/")
    proxy.conditions = Conditions(bandwidth=10e6)

    def replace() -> None:
        until("parts", 60, lambda: proxy.served > before + 3, pause=0.01)
        s3.client().put_object(Bucket=bucket, Key=f"{prefix}/a", Body=DATA[::-1])

    before = proxy.served
    writer = threading.Thread(target=replace)
    writer.start()
    with pytest.raises(StoreError, match=r"it was replaced while it was read\): run the same command again"):
        distant.get("a")
    writer.join()


@pytest.mark.usefixtures("impatient")
def test_a_large_checkpoint_survives_a_bad_link(distant: Store, proxy: Proxy) -> None:
    rng = np.random.default_rng(1)
    weights = {f"w{k}": rng.random((1000, 1000), dtype=np.float32) for k in range(5)}
    moments = Moments(weights, weights)
    state = CheckpointState("r", "p", 1, 2, 1, Origin("c", "f", {}, {}, ""), {})
    proxy.conditions = Conditions(latency=0.01, refused=0.02, cut=0.02)
    store = distant.outlasting()
    saved = save_checkpoint(store, state, weights, moments)
    for read, expected in (
        (load_weights(store, saved), weights),
        (load_moments(store, saved).exp_avg_sq, weights),
    ):
        assert read.keys() == expected.keys()
        for name, array in expected.items():
            np.testing.assert_array_equal(read[name], array)
