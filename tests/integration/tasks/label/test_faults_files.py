"""Labelling survives a full disk: the same command ends with the undisturbed dataset."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.tasks.label.stage import label_missing
from tests.support.fault_kinds import (
    filled,
    seeds,
    small_disk,
)
from tests.support.faults import CITY, SPEC, Site, site_at

pytestmark = pytest.mark.slow


@pytest.fixture
def disk(scratch: Path) -> Iterator[Path]:
    """A disk of 2 MB."""
    with small_disk(scratch / "store", 2**21) as disk:
        yield disk


@pytest.fixture
def site_on_disk(disk: Path, scratch: Path) -> Iterator[Site]:
    """A `site` on that disk."""
    site = site_at(disk / "s", scratch)
    yield site
    site.clear()


@pytest.mark.parametrize("seed", seeds(1))
def test_full_disk(disk: Path, site_on_disk: Site, seed: int) -> None:
    """A disk without room ends the run in a sentence; with room again it continues."""
    rng, site, failed = random.Random(seed), site_on_disk, 0
    for _ in range(2):
        with filled(disk, rng.randrange(0, 80_000)):
            try:
                label_missing(site.observer, CITY, SPEC)
            except McvrpError as error:
                assert "space" in str(error)  # noqa: PT017
                failed += 1
    assert failed
    label_missing(site.observer, CITY, SPEC)
    site.check()
