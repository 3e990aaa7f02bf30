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
    "label, one shard": 280,
    "label, each more": 230,
    "verify, one shard": 19,
    "verify, each more": 3,
    "checkpoint": 31,
}


@pytest.mark.timeout(600)
def test_no_work_takes_more_requests_than_it_did(
    s3: S3Server, s3_uri: str, proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
    with ray_session(2):
        requests = StoreRequests(Store.open(s3_uri), proxy, tmp_path)
        counts = {}
        for work, each in requests.all():
            counts[work] = each.total()
            print(work, each.total(), dict(each), flush=True)
            if counts.keys() >= MOST_REQUESTS.keys():
                break
    assert {work: count for work, count in counts.items() if count > MOST_REQUESTS[work]} == {}
