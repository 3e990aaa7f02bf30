"""Tests of the Makefile: what it installs when CPU=1 comes and goes, and its list of benchmarks."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
UNINSTALL = "-m pip uninstall --quiet --yes torch"


def make(folder: Path, *arguments: str) -> str:
    """Return what `make` prints, without the settings of one that runs these tests."""
    environment = {"PATH": os.environ["PATH"]}
    command = ["make", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, check=True, capture_output=True, text=True
    ).stdout


def test_the_build_for_cpus_is_replaced_once_it_is_not_asked_for(tmp_path: Path) -> None:
    """Not otherwise: there are machines whose package index has no other build."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    python, log = tmp_path / ".venv" / "bin" / "python", tmp_path / "log"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\necho "$*" >> {log}\n')
    python.chmod(0o755)

    def installed(cpu: bool) -> str:
        log.write_text("")
        stamp = f".venv/.installed-pipeline-dev-lkh{'-cpu' if cpu else ''}"
        make(tmp_path, stamp, f"CPU={int(cpu)}")
        return log.read_text()

    for cpu, before in ((False, False), (True, False), (False, True)):
        text = installed(cpu)
        assert ("torch==2.13.0+cpu" in text) == cpu
        assert (UNINSTALL in text) == before
        assert installed(cpu) == ""  # it is up to date
    os.utime(tmp_path / "pyproject.toml", (2**32, 2**32))
    assert UNINSTALL not in installed(cpu=False)


def test_help_names_every_benchmark() -> None:
    rules = re.findall(r"^bench-(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert f"make bench-...   {' '.join(rules)}: benchmarks" in make(ROOT, "help")
