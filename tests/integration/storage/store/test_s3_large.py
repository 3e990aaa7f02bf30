"""Large objects, which obstore moves in parts, on a server that refuses and breaks off."""

from __future__ import annotations

import os
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

PART = 5 * 2**20  # of obstore, the smallest that S3 takes
DATA = os.urandom(3 * PART)


@pytest.fixture
def distant(proxy: Proxy, s3_uri: str, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store behind the proxy."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
    monkeypatch.setattr(s3_objects, "WORKING", Patience(retries=4.0, silence=4.0))
    return Store.open(s3_uri)


@pytest.fixture
def uploads(s3: S3Server, s3_bucket: str) -> Callable[[], int]:
    """The number of unfinished uploads, past the proxy."""
    return lambda: len(s3.client().list_multipart_uploads(Bucket=s3_bucket).get("Uploads", []))


@pytest.mark.parametrize("size", [PART, PART + 1, 3 * PART])
def test_objects_around_the_limits_are_whole(distant: Store, size: int) -> None:
    distant.put("a", DATA[:size])
    assert distant.size("a") == size
    assert distant.get("a") == distant.find("a") == DATA[:size]


def test_a_write_that_fails_leaves_neither_object_nor_parts(
    distant: Store, proxy: Proxy, uploads: Callable[[], int]
) -> None:
    distant.put("a", b"old")
    proxy.fail("503 SlowDown", methods=("PUT",))
    with pytest.raises(StoreUnavailable, match="SlowDown"):
        distant.put("a", DATA)
    assert uploads() == 0
    assert distant.get("a") == b"old"


def test_a_completion_whose_answer_was_lost_is_recognized(distant: Store, proxy: Proxy) -> None:
    proxy.fail("lose answer", methods=("POST",), times=1, spared=1)  # which begins the upload
    distant.put("a", DATA)
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
