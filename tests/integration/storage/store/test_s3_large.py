"""Large objects on a slow server that refuses and breaks off: moved in parts, each part again on its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import numpy as np
import pytest

from mcvrp.storage.store import s3 as s3_objects
from mcvrp.storage.store.errors import StoreUnavailable
from mcvrp.storage.store.s3 import Patience
from mcvrp.storage.store.store import Store
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

DATA = os.urandom(64 * 10**6)
PART = 5 * 2**20  # of obstore, the smallest that S3 takes
COUNT = -(-len(DATA) // PART)


@pytest.fixture
def distant(proxy: Proxy, s3_uri: str, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store behind the proxy."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
    monkeypatch.setattr(s3_objects, "WORKING", Patience(retries=10.0, silence=4.0))
    return Store.open(s3_uri)


@pytest.fixture
def uploads(s3: S3Server, s3_bucket: str) -> Callable[[], int]:
    """The number of unfinished uploads, past the proxy."""
    return lambda: len(s3.client().list_multipart_uploads(Bucket=s3_bucket).get("Uploads", []))


def test_a_large_object_takes_one_request_per_part(
    distant: Store, proxy: Proxy, uploads: Callable[[], int]
) -> None:
    with proxy.counted() as written:
        distant.put("a", DATA)
    assert written == {"MULTIPART": COUNT + 2}
    with proxy.counted() as read:
        assert distant.get("a") == DATA
    assert read == {"GET": 1}
    assert uploads() == 0


@pytest.mark.parametrize("size", [PART, PART + 1, 3 * PART])
def test_objects_around_the_limits_are_whole(distant: Store, size: int) -> None:
    distant.put("a", DATA[:size])
    assert distant.size("a") == size
    assert distant.get("a") == distant.find("a") == DATA[:size]


def test_parts_share_the_link(distant: Store, proxy: Proxy) -> None:
    """While one waits for its answer, others use the link; `bench_store` measures how much of it."""
    proxy.conditions = Conditions(latency=0.03, bandwidth=20e6)
    proxy.most = 0
    distant.put("a", DATA)
    assert proxy.most >= 6  # obstore sends 12


@pytest.mark.slow
def test_refusals_and_cut_bodies_cost_their_part_only(distant: Store, proxy: Proxy) -> None:
    proxy.conditions = Conditions(refused=0.05, cut=0.05)
    with proxy.counted() as counts:
        for name in "abc":
            distant.put(name, DATA)
            assert distant.get(name) == DATA
    assert proxy.refused >= 3
    assert counts.total() <= 3 * (COUNT + 3) + proxy.refused + 1


@pytest.mark.slow
def test_a_write_that_fails_leaves_neither_object_nor_parts(
    distant: Store, proxy: Proxy, uploads: Callable[[], int]
) -> None:
    distant.put("a", b"old")
    proxy.fail("503 SlowDown", methods=("PUT",))
    with pytest.raises(StoreUnavailable, match="SlowDown"):
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


def test_a_large_checkpoint_survives_a_bad_link(distant: Store, proxy: Proxy) -> None:
    rng = np.random.default_rng(1)
    weights = {f"w{k}": rng.random((1000, 1000), dtype=np.float32) for k in range(5)}
    moments = Moments(weights, weights)
    state = CheckpointState("r", "p", 1, 2, 1, Origin("c", "f", {}, {}, ""), {})
    proxy.conditions = Conditions(latency=0.01, refused=0.02, cut=0.02)
    saved = save_checkpoint(distant, state, weights, moments)
    for read, expected in (
        (load_weights(distant, saved), weights),
        (load_moments(distant, saved).exp_avg_sq, weights),
    ):
        assert read.keys() == expected.keys()
        for name, array in expected.items():
            np.testing.assert_array_equal(read[name], array)
