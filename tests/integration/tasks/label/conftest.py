"""Fixtures for the tests of labelling."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mcvrp.tasks.support.ray_session import ray_session
from tests.support.faults import Site, site_at


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
