"""Tests of joining a Ray cluster: no processes or folders are left, errors have Ray's message."""

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
    """Its node has no cores; at the end its process and its folder are gone."""
    done = subprocess.run(  # Ray reads the settings of its token when it is imported
        [sys.executable, "-c", SESSIONS],
        env=os.environ | cluster.environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout == "twice\n", done.stderr


def test_a_wrong_token_is_an_error_with_rays_message(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("RAY_AUTH_TOKEN", "0" * 64)
    with pytest.raises(McvrpError, match=r"RAY_ADDRESS=.* \(.*[Tt]oken") as refused, ray_session():
        pass
    assert len(str(refused.value)) <= 300
