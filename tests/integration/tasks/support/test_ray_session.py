"""Ray sessions: number of cores, a clean end, one error message without a cluster; joining a cluster."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import ray
from numpy.typing import NDArray
from ray._private.node import Node

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City
from mcvrp.storage.store.store import Store
from mcvrp.tasks.support import ray_cluster
from mcvrp.tasks.support.machine import local_cores
from mcvrp.tasks.support.processes import descendants, free_port, is_alive
from mcvrp.tasks.support.ray_session import ClusterLost, kept_ray, ray_session
from mcvrp.tasks.support.ray_window import windowed
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
    with kept_ray():
        assert not ray.is_initialized()
        with ray_session(1) as workers:
            assert workers == 1
            threads = ray.remote(lambda: os.environ["OMP_NUM_THREADS"])
            assert ray.get(threads.remote()) == "1"
            task = ray.remote(lambda context: [seen(each) for each in context])
            for shared, costs in ray.get(task.remote(ray.put([city, replace(city, spare=2)]))):
                assert shared
                assert np.array_equal(costs, city.costs(SOME))
            node = ray.get_runtime_context().get_node_id()
        with ray_session() as workers:
            assert workers == 1
            assert ray.get_runtime_context().get_node_id() == node
            with ray_session() as inner:
                assert inner == 1
            assert ray.is_initialized()
        with pytest.raises(McvrpError, match=r"2 workers .* but the Ray session has 1"), ray_session(2):
            pass
        with stopped_soon(), pytest.raises(Stop), ray_session():  # not Ray's SystemError
            ray.wait([ray.remote(lambda: time.sleep(60)).remote()], timeout=2)
    assert not ray.is_initialized()
    assert (signal.getsignal(signal.SIGTERM), dict(os.environ)) == before


def await_end(processes: list[psutil.Process]) -> None:
    deadline = time.monotonic() + 5
    while left := [process for process in processes if is_alive(process)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


@pytest.mark.slow
def test_a_raylet_that_is_killed_leaves_no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray kills a raylet that does not end within a second; its agents would live for another minute."""
    orderly = Node.kill_all_processes

    def hard(node: Node, *arguments: Any, **options: Any) -> None:
        for info in node.all_processes.get("raylet", ()):
            info.process.kill()
            info.process.wait()
        orderly(node, *arguments, **options)

    monkeypatch.setattr(Node, "kill_all_processes", hard)
    before = set(descendants(os.getpid()))
    with ray_session(1):
        started = [psutil.Process(pid) for pid in descendants(os.getpid()) if pid not in before]
    assert len(started) > 2
    await_end(started)


def waits(seconds: float, _: object) -> None:
    time.sleep(seconds)


@pytest.mark.slow
@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("name", ["raylet", "gcs_server"])
def test_a_session_whose_processes_are_killed_has_ended(store: Store, name: str, kept: bool) -> None:
    """Ray itself would wait, and end with its own text after up to a minute; the next session works."""
    before = set(descendants(os.getpid()))
    with kept_ray() if kept else contextlib.nullcontext():
        with ray_session(1):
            started = [psutil.Process(pid) for pid in descendants(os.getpid()) if pid not in before]
            (victim,) = (process for process in started if process.name() == name)
            threading.Timer(1.0, victim.kill).start()
            with pytest.raises(ClusterLost, match="run the command again"):
                next(windowed(waits, [100.0], 1, None, store))
        for _ in range(2):
            with ray_session(1) as workers:
                await_end(started)
                assert list(windowed(waits, [0.0], workers, None, store)) == [(0.0, None)]
    assert not ray.is_initialized()


def test_too_many_workers_are_rejected() -> None:
    cores = local_cores()
    message = f"{cores + 1} workers were requested, but this machine has {cores} cores"
    with pytest.raises(McvrpError, match=message), ray_session(cores + 1):
        pass
    assert not ray.is_initialized()


@pytest.mark.parametrize(("prefix", "listening"), [("", False), ("", True), ("ray://", False)])
def test_a_cluster_that_does_not_answer_is_named(
    monkeypatch: pytest.MonkeyPatch, prefix: str, listening: bool
) -> None:
    """A closed port, and one of another server: one sentence, long before Ray gives up."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        address = f"{prefix}127.0.0.1:{server.getsockname()[1]}"
        if listening:
            server.listen()
        monkeypatch.setenv("RAY_ADDRESS", address)
        monkeypatch.setattr(ray_cluster, "_HEALTH_SECONDS", 3.0)
        monkeypatch.setattr(ray, "init", lambda **_: pytest.fail("ray.init is called, which takes minutes"))
        message = f"no Ray cluster answers at RAY_ADDRESS={address}"
        with pytest.raises(McvrpError, match=message), ray_session():
            pass
    assert not ray.is_initialized()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster of one core, whose head is not taken for a node of this machine."""
    # Paths of sockets below it have at most 107 characters: pytest's own folders are too deep.
    with tempfile.TemporaryDirectory(prefix="mcvrp-r-", ignore_cleanup_errors=True) as folder:
        cluster = Cluster(Path(folder), free_port())
        try:
            cluster.start("head")
            yield cluster
        finally:
            cluster.stop()


SESSIONS = """
import json, psutil, ray
import numpy as np
from pathlib import Path
from mcvrp.model.problem import City
from mcvrp.tasks.support.ray_session import CoreCount, ray_session
for _ in range(2):
    with ray_session() as workers:
        cores = sorted(node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"])
        assert (workers, cores) == (1, [0, 1]), (workers, cores)
        assert ray.get(ray.remote(lambda: 7).remote()) == 7
        city = City(np.ones((400, 2)), np.ones((400, 400)))  # to another machine its content is sent
        seen = ray.remote(lambda city: (city.matrix.sum(), "memfd" in Path("/proc/self/maps").read_text()))
        assert ray.get(seen.remote(ray.put(city))) == (160_000, False)
        count = CoreCount()
        assert count() is None
        assert ray.wait([count._pending], timeout=120)[0]
        assert count() == 1
        (raylet,) = (p for p in psutil.Process().children(recursive=True) if p.name() == "raylet")
        (folder,) = (Path(part[11:]) for part in raylet.cmdline() if part.startswith("--temp_dir="))
        assert folder.exists()
    assert not raylet.is_running()
    assert not folder.exists()
    assert not ray.is_initialized()
print("twice")
"""


@pytest.mark.slow
def test_a_session_joins_leaves_and_joins_again(cluster: Cluster) -> None:
    """Its node has no cores; at the end its process and its folder are gone."""
    done = subprocess.run(  # Ray reads the settings of its token when it is imported
        [sys.executable, "-c", SESSIONS],
        env=os.environ | cluster.environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout == "twice\n", done.stderr


@pytest.mark.slow
def test_a_wrong_token_is_an_error_with_rays_message(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("RAY_AUTH_TOKEN", "0" * 64)
    with pytest.raises(McvrpError, match=r"RAY_ADDRESS=.* \(.*[Tt]oken") as refused, ray_session():
        pass
    assert len(str(refused.value)) <= 300
