"""Pins: every requirement of pyproject.toml admits the version that constraints.txt has tested."""

from __future__ import annotations

import re
import subprocess
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
    wanted = Requirement(text)
    assert wanted.specifier.contains(PINS[wanted.name.lower()])


def test_what_pytorch_brings_for_cuda_is_pinned() -> None:
    named = [name for name in PINS if name.startswith("nvidia-")]
    assert len(named) >= 13
    assert {"triton", "cuda-toolkit", "cuda-bindings"} <= PINS.keys()


def test_the_wheel_for_processors_is_of_the_pinned_version() -> None:
    dry = ["make", "-n", "-B", "check"]
    for_processors, plain = (
        subprocess.run([*dry, *options], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for options in (["CPU=1"], [])
    )
    assert f" -c constraints.txt torch=={PINS['torch']}+cpu -e '.[pipeline,dev,lkh]'" in for_processors
    assert "+cpu" not in plain
