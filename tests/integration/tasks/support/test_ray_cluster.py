"""Joining a Ray cluster as a node of no cores: nothing is left behind, and who is refused learns why."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.tasks.support.processes import free_port
from mcvrp.tasks.support.ray_session import ray_session
from tests.support.fault_kinds import Cluster

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster of one core, whose head is not found as a node of this machine by its loopback address."""
    # Sockets lie below it, whose paths have 107 characters at most: pytest's own folders are too deep.
    with tempfile.TemporaryDirectory(prefix="mcvrp-r-", ignore_cleanup_errors=True) as folder:
        cluster = Cluster(Path(folder), free_port())
        try:
            cluster.start("head")
            yield cluster
        finally:
            cluster.stop()


SESSIONS = """
import json, psutil, ray
from pathlib import Path
from mcvrp.tasks.support.ray_session import CoreCount, ray_session
for _ in range(2):
    with ray_session() as workers:
        cores = sorted(node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"])
        assert (workers, cores) == (1, [0, 1]), (workers, cores)
        assert ray.get(ray.remote(lambda: 7).remote()) == 7
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


def test_a_session_joins_leaves_and_joins_again(cluster: Cluster) -> None:
    """Its node gives no core to the cluster; when it has left, no process and no folder of it is there."""
    asked = subprocess.run(  # Ray reads how to show a token when it is imported
        [sys.executable, "-c", SESSIONS],
        env=os.environ | cluster.environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert asked.stdout == "twice\n", asked.stderr


def test_who_has_the_wrong_token_reads_what_ray_says(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not that nobody answers: somebody did."""
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("RAY_AUTH_TOKEN", "0" * 64)
    with pytest.raises(McvrpError, match=r"RAY_ADDRESS=.* \(.*[Tt]oken") as refused, ray_session():
        pass
    assert len(str(refused.value)) <= 300
