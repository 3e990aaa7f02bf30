"""Faults while a dataset is labelled: processes and nodes killed, files corrupt, disks filled."""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from mcvrp.storage import layout
from mcvrp.storage.store.store import Store
from tests.support.faults import CITY, NAME, TIMEOUT_SECONDS, Family, LabelCommand, Site, start_family
from tests.support.labels import poison
from tests.support.shared import unavailable, until

FIRST = int(os.environ.get("MCVRP_FAULT_SEED", "1"))


def seeds(count: int) -> list[ParameterSet]:
    return [pytest.param(seed, id=f"seed-{seed}") for seed in range(FIRST, FIRST + count)]


# Processes


def strike(kind: str, site: Site, driver: LabelCommand, rng: random.Random) -> bool:
    if kind == "worker killed":
        workers = site.solving(driver)
        with contextlib.suppress(ProcessLookupError):
            if workers:
                os.kill(rng.choice(workers), signal.SIGKILL)
                return True
        return False
    if not driver.running:
        return False
    if kind == "driver killed":
        driver.process.kill()
    elif kind == "driver and workers killed":
        driver.family.kill()
    elif kind == "node killed":
        site.nodes["second"].kill()
    return True


def disturb(site: Site, rng: random.Random, plan: Sequence[str]) -> None:
    """Label while the faults of ``plan`` happen one after another at random moments; then finish."""
    driver = site.start()
    for kind in plan:
        struck = False
        while not struck:
            site.await_moment(driver, rng, at_work=kind in ("worker killed", "node killed"))
            struck = strike(kind, site, driver, rng)
            if not struck and not driver.running:
                assert driver.wait() == 0, driver.output
                lose_shards(site.observer, rng)
                driver = site.start()
        if kind.startswith("driver"):
            driver.wait()
            driver = site.start()
    site.finish(driver)


# Files


def lose_shards(store: Store, rng: random.Random) -> None:
    """Delete half of the label files."""
    paths = store.list(layout.data_dir(NAME))
    for path in rng.sample(paths, -(-len(paths) // 2)):
        store.delete(path)


# A disk


@contextlib.contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Path]:
    """Mount a disk of ``size`` bytes at ``folder``; skip if that is not allowed, but not in CI."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    mounted = subprocess.run(mount, capture_output=True, text=True)
    if mounted.returncode:
        unavailable(f"no small disk here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextlib.contextmanager
def filled(disk: Path, left: int) -> Iterator[None]:
    """Fill the disk up to ``left`` bytes."""
    ballast = disk / "ballast"
    free = os.statvfs(disk)
    ballast.write_bytes(bytes(max(0, free.f_bavail * free.f_bsize - left)))
    try:
        yield
    finally:
        ballast.unlink()


# An instance


def poisoned(folder: Path, n: int, i: int) -> dict[str, str]:
    """Return the environment in which HGS dies of a segmentation fault whenever it meets instance (n, i)."""
    folder.mkdir()
    poison(folder, CITY, n, i, "os.kill(os.getpid(), signal.SIGSEGV)")
    return {"PYTHONPATH": str(folder), "RAY_DISABLE_FAILURE_SIGNAL_HANDLER": "1"}


# A cluster


@dataclass
class Cluster:
    """Ray nodes of one core on this machine, by name."""

    folder: Path
    port: int
    nodes: dict[str, Family] = field(default_factory=dict)
    _token: str = field(default_factory=lambda: secrets.token_hex(32))

    @property
    def environment(self) -> dict[str, str]:
        return {"RAY_ADDRESS": f"127.0.0.1:{self.port}", **self._authority}

    @property
    def _authority(self) -> dict[str, str]:
        return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self._token}

    def start(self, name: str) -> None:
        where = [f"--address=127.0.0.1:{self.port}"]
        if name == "head":
            where = ["--head", f"--port={self.port}", "--include-dashboard=false"]
        program = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block"]
        command = [*program, "--num-cpus=1", *where]
        changes = {
            **self._authority,
            "RAY_TMPDIR": str(self.folder),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_raylet_start_wait_time_s": "120",  # Ray's own 30 s are short on a busy machine
            "RAY_health_check_initial_delay_ms": "1000",  # to notice a dead node in two seconds
            "RAY_health_check_period_ms": "500",
            "RAY_health_check_timeout_ms": "1000",
            "RAY_health_check_failure_threshold": "3",
        }
        log = self.folder / f"{name}-{secrets.token_hex(2)}.log"
        process, self.nodes[name] = start_family(
            [*command, "--num-gpus=0", "--object-store-memory=100000000"], log, **changes
        )

        def started() -> bool:
            assert process.poll() is None, log.read_text()
            return "Ray runtime started" in log.read_text()

        until(f"Ray ({log})", TIMEOUT_SECONDS, started, 0.1)

    def stop(self) -> None:
        for family in self.nodes.values():
            family.kill()
