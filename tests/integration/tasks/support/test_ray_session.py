"""Ray sessions: number of cores, a clean end, Ray that is killed, use of a cluster from one of its nodes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import ray
from numpy.typing import NDArray

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City
from mcvrp.tasks.support.machine import local_cores
from mcvrp.tasks.support.processes import below, free_port
from mcvrp.tasks.support.ray_session import ClusterLost, ray_session, windowed
from tests.support.fault_kinds import Cluster


class Stop(BaseException):
    """Exception of a library's signal handler, such as Prefect's for SIGTERM."""


@contextlib.contextmanager
def stopped_soon() -> Iterator[None]:
    """Raise `Stop` from a signal handler within the context."""

    def stop(*_: object) -> None:
        raise Stop

    before = signal.signal(signal.SIGUSR1, stop)
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGUSR1))
    timer.start()
    try:
        yield
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)


SOME = np.array([0, 7, 399])  # nodes


def seen(city: City) -> tuple[bool, NDArray[np.float64]]:
    """Return whether this process shares memory with another, and some costs of ``city``."""
    return "memfd:mcvrp" in Path("/proc/self/maps").read_text(), city.costs(SOME)


def test_a_session_begins_and_ends() -> None:
    """Workers have one thread and share large matrices; at the end Ray is gone, handlers and environment are
    restored."""
    before = (signal.getsignal(signal.SIGTERM), dict(os.environ))
    city = City.framed(np.random.default_rng(1).random((400, 2)), np.random.default_rng(2).random((400, 400)))
    with ray_session(1) as workers:
        assert workers == 1
        threads = ray.remote(lambda: os.environ["OMP_NUM_THREADS"])
        assert ray.get(threads.remote()) == "1"
        task = ray.remote(lambda context: [seen(each) for each in context])
        for shared, costs in ray.get(task.remote(ray.put([city, replace(city, spare=2)]))):
            assert shared
            assert np.array_equal(costs, city.costs(SOME))
        node = ray.get_runtime_context().get_node_id()
        with ray_session() as inner:
            assert inner == 1
            assert ray.get_runtime_context().get_node_id() == node
        assert ray.is_initialized()
        with pytest.raises(McvrpError, match=r"2 workers .* but the Ray session has 1"), ray_session(2):
            pass
        with stopped_soon(), pytest.raises(Stop), ray_session():  # not Ray's SystemError
            ray.wait([ray.remote(lambda: time.sleep(60)).remote()], timeout=2)
    assert not ray.is_initialized()
    assert (signal.getsignal(signal.SIGTERM), dict(os.environ)) == before


def waits(seconds: float, _: object) -> None:
    time.sleep(seconds)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["raylet", "gcs_server"])
def test_a_session_whose_processes_are_killed_has_ended(name: str) -> None:
    """Ray itself would wait, without end for a raylet; the next session works."""
    before = below(os.getpid())
    with ray_session(1):
        started = (process for process in below(os.getpid()) if process not in before)
        (victim,) = (process for process in started if process.name() == name)
        threading.Timer(1.0, victim.kill).start()
        with pytest.raises(ClusterLost, match="run the command again"):
            next(windowed(waits, [100.0], 1, None))
    with ray_session(1) as workers:
        assert list(windowed(waits, [0.0], workers, None)) == [(0.0, None)]
    assert not ray.is_initialized()


def test_too_many_workers_are_rejected() -> None:
    cores = local_cores()
    message = f"{cores + 1} workers were requested, but this machine has {cores} cores"
    with pytest.raises(McvrpError, match=message), ray_session(cores + 1):
        pass
    assert not ray.is_initialized()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster of one core on this machine."""
    # Paths of sockets below it have at most 107 characters: pytest's own folders are too deep.
    with tempfile.TemporaryDirectory(prefix="mcvrp-r-", ignore_cleanup_errors=True) as folder:
        cluster = Cluster(Path(folder), free_port())
        try:
            cluster.start("head")
            yield cluster
        finally:
            cluster.stop()


SESSIONS = """
import ray
import numpy as np
from pathlib import Path
from mcvrp.model.problem import City
from mcvrp.tasks.support.ray_session import cluster_cores, ray_session
for _ in range(2):
    with ray_session() as workers:
        assert workers == cluster_cores() == 1
        city = City(np.ones((400, 2)), np.ones((400, 400)))  # to another machine its content is sent
        seen = ray.remote(lambda city: (city.matrix.sum(), "memfd" in Path("/proc/self/maps").read_text()))
        assert ray.get(seen.remote(ray.put(city))) == (160_000, False)
    assert not ray.is_initialized()
print("twice")
"""


@pytest.mark.slow
def test_a_cluster_is_used_from_one_of_its_nodes(cluster: Cluster) -> None:
    done = subprocess.run(  # Ray reads the settings of its token when it is imported
        [sys.executable, "-c", SESSIONS],
        env=os.environ | cluster.environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout == "twice\n", done.stderr


@pytest.mark.slow
def test_a_wrong_token_is_one_sentence(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("RAY_AUTH_TOKEN", "0" * 64)
    with pytest.raises(McvrpError, match=r"RAY_ADDRESS=.*RAY_AUTH_TOKEN") as refused, ray_session():
        pass
    assert len(str(refused.value)) <= 300
