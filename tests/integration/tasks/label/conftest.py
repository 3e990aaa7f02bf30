"""What the tests of labelling share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.faults import Site, site_at


@pytest.fixture
def site(scratch: Path) -> Iterator[Site]:
    """A store with the city and no labels."""
    site = site_at(scratch / "store", scratch)
    yield site
    site.clear()
