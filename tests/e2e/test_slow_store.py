"""The work on a distant store that is busy: how many requests it takes, and that its results are the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mcvrp.storage.benchmarks import read_results
from mcvrp.storage.cities import load_city
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.store.store import Store
from mcvrp.storage.trials import read_pairs
from mcvrp.tasks.benchmark.results import results_frame
from mcvrp.tasks.support.ray_session import ray_session
from tests.support.command import Workplace
from tests.support.labels import drive
from tests.support.s3_proxy import DISTANT, Proxy
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


@pytest.mark.timeout(3000)
def test_results_on_a_slow_store_are_those_on_a_folder(
    s3: S3Server, s3_uri: str, proxy: Proxy, tmp_path: Path
) -> None:
    """Every command from the city to a night, with 100 ms per request, 2 % of them refused and some cut."""
    place, proxy.conditions = Workplace.new(tmp_path), DISTANT
    folder, slow = Store.at(place.store), Store.at(s3_uri)
    methods = ("--set", 'benchmark.methods=["hgs", "fm-ns"]')
    for store in (folder, slow):
        for command in (("run", *methods), ("verify",), ("nightly",)):
            if command == ("nightly",):
                drive(store, load_city(store, "smoke"), 8)
            done = place.mcvrp(
                *command, "--preset", "smoke", "--store", store.uri, **s3.environment(endpoint=proxy.endpoint)
            )
            assert done.returncode == 0, done.stderr
    assert proxy.refused > 10
    for dataset in ("smoke", "smoke-held-out"):
        assert Dataset.open(slow, dataset).fingerprint() == Dataset.open(folder, dataset).fingerprint()
    weights = [path for path in folder.list("") if path.endswith("safetensors")]
    assert len([path for path in weights if path.startswith("models/")]) == 2
    assert weights == [path for path in slow.list("") if path.endswith("safetensors")]
    assert [path for path in weights if slow.get(path) != folder.get(path)] == []
    costs, pairs = [], []
    for store in (folder, slow):
        frame = results_frame(read_results(store, "smoke"))
        costs.append(frame.sort_values(["method", "n", "index", "samples"])["cost"])
        pairs.append(read_pairs(store, "smoke", store.folders("nights/smoke")[0]))
    np.testing.assert_array_equal(costs[0], costs[1])
    assert pairs[0] is not None
    assert pairs[0].equals(pairs[1])
