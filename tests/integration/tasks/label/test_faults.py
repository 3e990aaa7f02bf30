"""Labelling survives what breaks: whatever happens, the same command ends with the undisturbed dataset.

Faults and their moments are random, from the seed in the test's name; MCVRP_FAULT_SEED draws others.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.stage import label_missing
from mcvrp.tasks.label.verify import verify_dataset
from mcvrp.tasks.support.processes import free_port
from mcvrp.tasks.support.ray_session import ray_session
from tests.support.fault_kinds import (
    CORRUPTIONS,
    FIRST,
    INJECTED,
    Cluster,
    corrupt_file,
    corruptible,
    disturb,
    filled,
    poisoned,
    seeds,
    small_disk,
    strike,
)
from tests.support.faults import CITY, NAME, SPEC, TOTAL, Site, undisturbed

TRIALS = 27  # of the slow suite alone, with this last one
KILLS = ["worker killed", "worker killed", "driver killed", "driver and workers killed"]


@pytest.fixture(scope="module", autouse=True)
def _ray() -> Iterator[None]:
    """Ray for what the tests do themselves; the commands have their own."""
    with ray_session(2):
        yield


@pytest.fixture
def site(scratch: Path) -> Iterator[Site]:
    """A store with the city and no labels."""
    site = site_at(scratch / "store", scratch)
    yield site
    site.clear()


def site_at(folder: Path, scratch: Path) -> Site:
    shutil.copytree(undisturbed() / "cities", folder / "cities")
    return Site(str(folder), scratch, Store.open(folder), {"RAY_TMPDIR": str(scratch)})


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(0, 4))
def test_killed_processes(site: Site, seed: int) -> None:
    """Workers and drivers are killed at any moment, with all that they started or alone."""
    rng = random.Random(seed)
    plan = rng.sample(KILLS, 4) if seed > FIRST else ["worker killed", "driver killed"]
    disturb(site, rng, plan)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(0, 2))
def test_killed_nodes(site: Site, scratch: Path, seed: int) -> None:
    """Of a cluster of two nodes one is killed, comes back, and others with it."""
    rng = random.Random(seed)
    cluster = Cluster(scratch, free_port())
    try:
        cluster.start("head")
        cluster.start("second")
        site.nodes, site.changes = cluster.nodes, cluster.environment
        disturb(site, rng, ["node killed"])
        shutil.rmtree(Path(site.uri) / layout.label_dir(NAME))
        cluster.start("second")
        disturb(site, rng, [*rng.sample(["worker killed", "driver killed"], 2), "node killed"])
    finally:
        site.clear()
        cluster.stop()


@pytest.mark.slow
def test_the_head_is_killed_and_started_again(site: Site, scratch: Path) -> None:
    """The command joins the cluster that comes in its place, and ends as if nothing had been."""
    cluster = Cluster(scratch, free_port())
    try:
        cluster.start("head")
        site.nodes, site.changes = cluster.nodes, cluster.environment
        driver = site.start()
        site.await_moment(driver, random.Random(0), at_work=True)
        assert driver.running
        cluster.nodes["head"].kill()
        for path in scratch.rglob("ray_current_cluster"):
            path.unlink()  # a head that finds it does not start while the driver's node is here, too
        cluster.start("head")
        site.finish(driver, runs=1)
        assert "is gone" in driver.said
    finally:
        site.clear()
        cluster.stop()


@pytest.mark.parametrize("seed", seeds(1, 9))
def test_corrupt_files(site: Site, seed: int) -> None:
    """Faults in a finished dataset are found by verify, all of them, and repaired by label."""
    rng = random.Random(seed)
    store = site.observer
    shutil.copytree(undisturbed() / layout.label_dir(NAME), Path(site.uri) / layout.label_dir(NAME))
    corrupt = {}
    for path in rng.sample(corruptible(store), 5):
        corrupt[path] = rng.choice(CORRUPTIONS)
        corrupt_file(store, path, corrupt[path], rng)
    report = verify_dataset(store, NAME)
    shards = [path for path in corrupt if layout.shard_number(path) is not None]
    faulty = {fault.path for fault in report.faults}
    lost = [path for path in shards if corrupt[path] == "file deleted"]
    if layout.shard_list(NAME) not in corrupt:
        assert faulty >= set(shards), corrupt
    assert not lost or report.missing, corrupt
    label_missing(store, CITY, SPEC)
    site.check()


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(0, 2))
def test_corrupt_on_the_way(site: Site, seed: int) -> None:
    """The driver is killed, and what it has staged and published so far is corrupt."""
    rng = random.Random(seed)
    driver = site.start()
    site.await_moment(driver, rng, at_work=True)
    INJECTED["driver killed"] += strike("driver killed", site, driver, rng)
    driver.wait()
    files = corruptible(site.observer)
    for path in rng.sample(files, min(3, len(files))):
        corrupt_file(site.observer, path, rng.choice(CORRUPTIONS), rng)
    verify_dataset(site.observer, NAME)
    site.finish()


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(0, 3))
def test_full_disk(scratch: Path, seed: int) -> None:
    """A disk without room ends the run in a sentence; when there is room again it goes on."""
    rng = random.Random(seed)
    with small_disk(scratch / "store", 2**21) as disk:
        site = site_at(disk / "s", scratch)
        try:
            for _ in range(2):
                with filled(disk, rng.randrange(0, 80_000)):
                    try:
                        label_missing(site.observer, CITY, SPEC)
                    except McvrpError as error:
                        assert "space" in str(error)  # noqa: PT017
            label_missing(site.observer, CITY, SPEC)
            site.check()
        finally:
            site.clear()


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(0, 2))
def test_disk_fills_while_at_work(scratch: Path, seed: int) -> None:
    """Somebody else fills the disk for a while."""
    rng = random.Random(seed)
    with small_disk(scratch / "store", 2**21) as disk:
        site = site_at(disk / "s", scratch)
        try:
            driver = site.start()
            site.await_moment(driver, rng, at_work=True)
            with filled(disk, rng.randrange(0, 4096)):
                assert driver.wait() in (0, 1, 2)
            site.finish()
        finally:
            site.clear()


@pytest.mark.slow  # the short form is in test_stage
@pytest.mark.parametrize("seed", seeds(0, 2))
def test_poison_instance(site: Site, scratch: Path, seed: int) -> None:
    """The one instance that kills the solver is put aside with its reason, and everything else is done."""
    rng = random.Random(seed)
    n, i = rng.choice(SPEC.sizes), rng.randrange(SPEC.count)
    environment = poisoned(scratch / "poison", n, i)
    for _ in range(1 if seed == FIRST else 2):  # trying again changes nothing
        driver = site.start(**environment)
        assert driver.wait() == 1, driver.said
        assert f"lacks 1 of {TOTAL} labels" in driver.last_line
        assert f"n={n}, i={i}" in driver.last_line
        assert "SIGSEGV" in site.observer.get(layout.quarantine(NAME)).decode()
        report = verify_dataset(site.observer, NAME)
        assert not report.faults
        assert report.missing == ((n, i, i + 1),)
        assert report.rows == TOTAL - 1
    site.finish()


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(0, 2))
def test_two_drivers(site: Site, seed: int) -> None:
    """Two commands on one dataset: one is refused in a sentence, or both end well."""
    rng = random.Random(seed)
    drivers = [site.start()]
    time.sleep(rng.uniform(0, 6))
    drivers.append(site.start())
    INJECTED["second driver"] += 1
    codes = [driver.wait() for driver in drivers]
    assert 0 in codes
    for driver in drivers:
        assert driver.wait() == 0 or "is being labelled by process" in driver.last_line, driver.said
    site.check()


@pytest.mark.slow
def test_at_least_fifty_faults(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> None:
    """The suite says how many faults there were of each kind."""
    counts = ", ".join(f"{count} x {kind}" for kind, count in sorted(INJECTED.items()))
    with capsys.disabled():
        print(f"\n{INJECTED.total()} faults: {counts}")
    trials = [item for item in request.session.items if item.path == request.path]
    if len(trials) < TRIALS:
        pytest.skip("a part of the suite")
    assert INJECTED.total() >= 50
