"""Labelling survives faults of files and disks: the same command ends with the undisturbed dataset."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.tasks.label.stage import label_missing
from mcvrp.tasks.label.verify import verify_dataset
from tests.support.fault_kinds import (
    CORRUPTIONS,
    corrupt_file,
    corruptible,
    filled,
    seeds,
    small_disk,
)
from tests.support.faults import CITY, NAME, SPEC, Site, site_at, undisturbed

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


@pytest.mark.parametrize("seed", seeds(4))
def test_corrupt_files(site: Site, seed: int) -> None:
    """Faults in a finished dataset are found by verify, all of them; their files are made again by label."""
    rng = random.Random(seed)
    store = site.observer
    shutil.copytree(undisturbed() / layout.label_dir(NAME), Path(site.uri) / layout.label_dir(NAME))
    corrupt = {}
    for path in rng.sample(corruptible(store), 5):
        corrupt[path] = rng.choice(CORRUPTIONS)
        corrupt_file(store, path, corrupt[path], rng)
    report = verify_dataset(store, NAME, delete=True)
    labels = {path: kind for path, kind in corrupt.items() if layout.rows_of(path)}
    changed = {path for path, kind in labels.items() if kind != "file deleted"}
    if layout.manifest(NAME) not in corrupt:
        assert {fault.path for fault in report.faults} == changed, corrupt
        assert bool(report.missing) == bool(labels), corrupt
    label_missing(store, CITY, SPEC)
    site.check()


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
