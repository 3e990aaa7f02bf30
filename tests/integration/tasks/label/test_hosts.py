"""Labelling on hosts of their own addresses: a link goes down and comes back, a host goes permanently.

`make test-stack-full` runs it: it takes six minutes.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from mcvrp.tasks.support.processes import free_port
from tests.support.fault_kinds import NODE_PATH, ON_NODE, Cluster, lose_shards
from tests.support.faults import LabelCommand, Site
from tests.support.hosts import hosts

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.environ.get("MCVRP_TEST_STACK") != "all", reason="`make test-stack-full` runs it"),
]
_DOWN_SECONDS = 60.0


def at_work(site: Site, rng: random.Random) -> LabelCommand:
    """Start the command and return it at a random moment of its work."""
    while True:
        driver = site.start()
        site.await_moment(driver, rng, at_work=True)
        if driver.running:
            return driver
        assert driver.wait() == 0, driver.output
        lose_shards(site.observer, rng)


def test_hosts_come_and_go(site: Site, scratch: Path) -> None:
    """The driver has a host of its own; what a lost host was at the others do, and nothing is done twice."""
    rng = random.Random(0)
    with hosts(4) as (of_head, one, two, of_driver):
        cluster = Cluster(scratch, free_port(), places={"head": of_head, "one": one, "two": two})
        try:
            for name in cluster.places:
                cluster.start(name)
            site.nodes, site.changes = cluster.nodes, cluster.environment | NODE_PATH
            site.inside = (*of_driver.inside, ON_NODE)
            driver = at_work(site, rng)
            one.link("down")
            time.sleep(_DOWN_SECONDS)
            one.link("up")
            assert driver.wait() == 0, driver.output
            lose_shards(site.observer, rng)
            driver = at_work(site, rng)
            cluster.nodes["two"].kill()
            site.finish(driver, runs=1)
        finally:
            site.clear()
            cluster.stop()
