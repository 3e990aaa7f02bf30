"""Labels into an object store that fails for a while: it waits or ends in a sentence, and loses nothing."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcvrp.storage.cities import save_city
from mcvrp.storage.store.store import Store
from mcvrp.tasks.support.ray_session import ray_session
from tests.support.fault_kinds import lose_shards, seeds
from tests.support.faults import CITY, CITY_NAME, LabelCommand, Site, undisturbed
from tests.support.s3_proxy import Proxy
from tests.support.s3_server import S3Server

pytestmark = pytest.mark.slow

FOR_A_WHILE = ("503", "hang", "reset")
A_FEW_TIMES = ("cut upload", "cut download", "lose answer")


@pytest.fixture(scope="module", autouse=True)
def _ray(s3: S3Server) -> Iterator[None]:
    """Ray whose workers know the way to the server, for what the tests do themselves."""
    undisturbed()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in s3.environment().items():
            patch.setenv(name, value)
        with ray_session(2):
            yield


@pytest.fixture
def site(s3: S3Server, proxy: Proxy, scratch: Path) -> Iterator[Site]:
    """A bucket that the command reaches through the proxy, with the city and no labels."""
    observer = Store.open(f"s3://{s3.bucket()}/store")
    save_city(observer, CITY_NAME, CITY)
    changes = {"RAY_TMPDIR": str(scratch), **s3.environment(endpoint=proxy.endpoint)}
    site = Site(observer.uri, scratch, observer, changes)
    yield site
    site.clear()


@pytest.mark.parametrize("seed", seeds(2))
def test_an_object_store_that_fails(site: Site, proxy: Proxy, seed: int) -> None:
    rng = random.Random(seed)
    driver = site.start()
    kinds = [*FOR_A_WHILE, *A_FEW_TIMES][seed % 2 :: 2]  # two seeds have all
    for kind in rng.sample(kinds, len(kinds)):
        while not _disturbed(site, proxy, driver, kind, rng):
            assert driver.wait() == 0, driver.output
            lose_shards(site.observer, rng)
            driver = site.start()
    assert driver.wait() == 0, driver.output
    site.check()


@pytest.mark.parametrize("seed", seeds(1))
def test_an_object_store_that_refuses(site: Site, proxy: Proxy, seed: int) -> None:
    """Permission taken away ends the run at once, in a sentence; given back, the command continues."""
    rng = random.Random(seed)
    driver = site.start()
    site.await_moment(driver, rng, at_work=True)
    proxy.fail("403", methods=("PUT", "POST", "DELETE"))
    assert driver.wait() in (1, 2)
    assert "permission" in driver.last_line
    again = site.start()
    assert again.wait() == 2
    assert "permission" in again.last_line
    proxy.repair()
    site.finish()


def _disturbed(site: Site, proxy: Proxy, driver: LabelCommand, kind: str, rng: random.Random) -> bool:
    """Let requests meet ``kind`` at a random moment; return whether one has met it."""
    site.await_moment(driver, rng, at_work=True)
    before = proxy.failed
    proxy.fail(kind, times=rng.randint(1, 4) if kind in A_FEW_TIMES else float("inf"))
    seconds = rng.uniform(21, 30) if kind == "hang" else rng.uniform(2, 12)  # a client gives up after 20
    deadline = time.monotonic() + seconds
    while driver.running and time.monotonic() < deadline:
        time.sleep(0.05)
    proxy.repair()
    return proxy.failed > before
