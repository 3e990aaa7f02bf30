"""Number of requests that each kind of work takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcvrp.storage.store.store import Store
from mcvrp.tasks.support.ray_session import ray_session
from tests.support.s3_proxy import Proxy
from tests.support.s3_server import S3Server
from tests.support.store_requests import StoreRequests

pytestmark = pytest.mark.slow

# Most requests of each work, a tenth above the figures in BENCHMARKS.md: lower them with the figures.
MOST_REQUESTS = {
    "label, one shard": 45,
    "label, each more": 21,
    "verify, one shard": 17,
    "verify, each more": 1,
    "benchmark, one method and size": 5,
    "benchmark, 24 more instances": 2,
    "checkpoint": 32,
    "publication": 15,
    "training, 2 steps": 112,
    "night 1": 241,
    "night 2": 273,
    "inspect": 1,
    "inspect labels/many": 6,
    "inspect cities/town": 3,
    "inspect models/small": 25,
    "gc": 24,
}


@pytest.mark.timeout(600)
def test_no_work_takes_more_requests_than_it_did(
    s3: S3Server, s3_uri: str, proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
    with ray_session(2):
        requests = StoreRequests(Store.open(s3_uri), proxy.counted, tmp_path)
        counts = {}
        for work, each in requests.all():
            counts[work] = each.total()
            print(work, each.total(), dict(each), flush=True)
    assert {work: count for work, count in counts.items() if count > MOST_REQUESTS[work]} == {}
    assert counts.keys() == MOST_REQUESTS.keys()
