"""Fixtures that integration tests share."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A folder whose name is short enough for Ray's sockets."""
    folder = Path(tempfile.mkdtemp(prefix="mcvrp-f-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
