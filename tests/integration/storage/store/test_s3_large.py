"""Large objects, which obstore moves in parts, on a server that refuses and breaks off."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from mcvrp.storage.store import s3 as s3_objects
from mcvrp.storage.store.errors import StoreUnavailable
from mcvrp.storage.store.s3 import Patience
from mcvrp.storage.store.store import Store
from tests.support.s3_proxy import Proxy
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
