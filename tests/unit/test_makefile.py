"""Tests of the Makefile: what it installs, its arguments, and its list of benchmarks."""

from __future__ import annotations

import os
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


def program(path: Path, *lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)


def checkout(folder: Path) -> None:
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder)


def test_the_build_for_cpus_is_replaced_once_it_is_not_asked_for(tmp_path: Path) -> None:
    """Not otherwise: there are machines whose package index has no other build."""
    log = tmp_path / "log"
    checkout(tmp_path)
    program(tmp_path / ".venv/bin/python", f'echo "$*" >> {log}')

    def installed(cpu: bool) -> str:
        log.write_text("")
        stamp = f".venv/.installed-pipeline-dev-docs-lkh{'-cpu' if cpu else ''}"
        make(tmp_path, stamp, f"CPU={int(cpu)}")
        return log.read_text()

    for cpu, before in ((False, False), (True, False), (False, True)):
        text = installed(cpu)
        assert ("torch==2.13.0+cpu" in text) == cpu
        assert (UNINSTALL in text) == before
        assert installed(cpu) == ""  # it is up to date
    os.utime(tmp_path / "pyproject.toml", (2**32, 2**32))
    assert UNINSTALL not in installed(cpu=False)


def test_the_folder_of_the_store_may_contain_a_space(tmp_path: Path) -> None:
    checkout(tmp_path)
    program(tmp_path / ".venv/bin/python")
    program(tmp_path / ".venv/bin/mcvrp", 'printf "<%s>" "$@"')
    assert "<run><--preset><laptop><--store><a b>" in make(tmp_path, "demo", "STORE=a b")
