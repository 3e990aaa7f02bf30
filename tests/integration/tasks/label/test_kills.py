"""Labelling survives who dies: whatever happens, the same command ends with the undisturbed dataset.

Faults and their moments are random, from the seed in the test's name; MCVRP_FAULT_SEED draws others. Each
happens: a command that was through before it loses a shard, and works again.
"""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path

import pytest

from mcvrp.storage import layout
from mcvrp.tasks.label.verify import verify_dataset
from mcvrp.tasks.support.processes import free_port
from tests.support.fault_kinds import Cluster, disturb, poisoned, seeds
from tests.support.faults import NAME, SPEC, Site

pytestmark = pytest.mark.slow
KILLS = ["worker killed", "driver killed", "driver and workers killed"]


@pytest.mark.parametrize("seed", seeds(1))
def test_killed_processes(site: Site, seed: int) -> None:
    rng = random.Random(seed)
    disturb(site, rng, rng.sample(KILLS, 3))


@pytest.mark.parametrize("seed", seeds(1))
def test_killed_nodes(site: Site, scratch: Path, seed: int) -> None:
    """One of two nodes of a cluster is killed, comes back, and others with it."""
    rng = random.Random(seed)
    cluster = Cluster(scratch, free_port())
    try:
        cluster.start("head")
        cluster.start("second")
        site.nodes, site.changes = cluster.nodes, cluster.environment
        disturb(site, rng, ["node killed"])
        shutil.rmtree(Path(site.uri) / layout.label_dir(NAME))
        cluster.start("second")
        disturb(site, rng, [*rng.sample(["worker killed", "driver killed"], 1), "node killed"])
    finally:
        site.clear()
        cluster.stop()


def test_the_head_is_killed_and_started_again(site: Site, scratch: Path) -> None:
    """The command ends in one sentence; run again, it ends as if nothing had been."""
    cluster = Cluster(scratch, free_port())
    try:
        cluster.start("head")
        site.nodes, site.changes = cluster.nodes, cluster.environment
        driver = site.start()
        site.await_moment(driver, random.Random(0), at_work=True)
        assert driver.running
        cluster.nodes["head"].kill()
        cluster.start("head")
        assert driver.wait() == 1, driver.output
        assert "is gone" in driver.last_line
        site.finish(runs=1)
    finally:
        site.clear()
        cluster.stop()


def test_a_crash_of_the_solver_costs_its_file(site: Site, scratch: Path) -> None:
    n, i = SPEC.smallest, SPEC.count - 1
    driver = site.start(**poisoned(scratch / "poison", n, i))
    assert driver.wait() == 1, driver.output
    assert "1 file could not be made (first: rows" in driver.last_line
    assert f"of n={n}: its worker was lost" in driver.last_line
    assert {n: len(gaps) for n, *gaps in verify_dataset(site.observer, NAME).missing} == {n: 2}
    site.finish()


@pytest.mark.parametrize("seed", seeds(1))
def test_two_drivers(site: Site, seed: int) -> None:
    """Two commands on one dataset: one is refused in a sentence, or both end well."""
    rng = random.Random(seed)
    drivers = [site.start()]
    time.sleep(rng.uniform(0, 6))
    drivers.append(site.start())
    codes = [driver.wait() for driver in drivers]
    assert 0 in codes
    for driver in drivers:
        assert driver.wait() == 0 or "is being labelled by process" in driver.last_line, driver.output
    site.check()
