"""Pins: every requirement of pyproject.toml admits the version that constraints.txt has tested."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"].values()
REQUIREMENTS = [*PROJECT["dependencies"], *(text for extra in EXTRAS for text in extra)]
PINS = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text().lower(), re.MULTILINE))


@pytest.mark.parametrize("text", REQUIREMENTS)
def test_the_pin_is_in_the_range(text: str) -> None:
    """Otherwise no fresh machine could install it, however long this one has it."""
    wanted = Requirement(text)
    assert wanted.specifier.contains(PINS[wanted.name.lower()])
