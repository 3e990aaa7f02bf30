"""Test of the whole on a real S3 server: every stage reads and writes there, and there only."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import numpy as np
import pytest

from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.store.store import Store
from mcvrp.tasks.benchmark.run import results_frame
from tests.support.command import Workplace
from tests.support.fault_kinds import seeds
from tests.support.results import read_results
from tests.support.s3_proxy import DISTANT, Proxy
from tests.support.s3_server import S3Server


def falling_silent(proxy: Proxy, rng: random.Random, end: threading.Event, silences: list[str]) -> None:
    """Let the server fall silent after some requests, again and again, the first time for 30 s; note how."""
    while not end.is_set():
        moment = proxy.served + rng.randint(1, 300)
        while proxy.served < moment and not end.wait(0.05):
            pass
        silences.append(rng.choice(("503", "reset", "429 TooManyRequests")))
        proxy.fail(silences[-1])
        end.wait(5.0 if silences[1:] else 30.0)
        proxy.repair()


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("seed", seeds(1))
def test_every_stage_outlasts_a_silent_bucket(
    s3: S3Server, s3_uri: str, proxy: Proxy, tmp_path: Path, seed: int
) -> None:
    """However slow and busy the server is, and often silent, all is equal to that of a quiet run."""
    place, end = Workplace.new(tmp_path), threading.Event()
    methods = 'benchmark.methods=["hgs", "am", "fm-ns"]'  # one of each kind; all run elsewhere
    quiet, silent = Store.at(f"{s3_uri}/quiet"), Store.at(f"{s3_uri}/silent")
    run = ("run", "--preset", "smoke", "--store", quiet.uri, "--no-prefect", "--set", methods)
    refused = place.mcvrp(*run, **s3.environment() | {"AWS_SECRET_ACCESS_KEY": "wrong"})
    assert refused.returncode == 2
    assert refused.stderr.startswith(f"mcvrp: cannot list {quiet.uri} ")
    assert len(refused.stderr.splitlines()) == 1
    done = place.mcvrp(*run, **s3.environment())
    assert done.returncode == 0, done.stderr
    assert f"{quiet.uri}/benchmarks/smoke/report.html" in done.stdout
    assert not place.store.exists()
    assert [name for name in quiet.list("") if name.endswith("/")] == []
    changes = s3.environment(endpoint=proxy.endpoint)
    proxy.conditions = DISTANT
    silences = list[str]()
    trouble = threading.Thread(target=falling_silent, args=(proxy, random.Random(seed), end, silences))
    trouble.start()
    try:
        for command in (
            ("run", "--preset", "smoke", "--no-prefect", "--set", methods),
            ("verify", "smoke"),
            ("gc", "--delete"),
            ("inspect", "models/smoke"),
        ):
            for _ in range(60):  # to begin with, the server has to answer at once
                done = place.mcvrp(*command, "--store", silent.uri, **changes)
                if not done.stderr.startswith("mcvrp: cannot"):
                    break
            assert done.returncode == 0, done.stderr
    finally:
        end.set()
        trouble.join()
    assert len(silences) >= 3
    assert Dataset.open(silent, "smoke").fingerprint() == Dataset.open(quiet, "smoke").fingerprint()
    for path in ("models/smoke/0001/model.safetensors", "attention/smoke/n=020/model.safetensors"):
        assert silent.get(path) == quiet.get(path)
    costs = [
        results_frame(read_results(store, "smoke")).sort_values(["method", "n", "index", "samples"])["cost"]
        for store in (quiet, silent)
    ]
    np.testing.assert_array_equal(costs[0], costs[1])
