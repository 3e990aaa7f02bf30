"""Fixture of the tests with a Prefect server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import Workplace


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    return Workplace.new(tmp_path)
