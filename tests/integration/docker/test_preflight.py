"""Preflight of the stack, with a program that answers as Docker's does; files and disks are real."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[3]
FILE = ROOT / "docker" / "preflight.py"
MAKEFILE = (ROOT / "Makefile").read_text()
SECRETS = re.search(r"^SECRETS := (.*)$", MAKEFILE, re.MULTILINE)[1].split()  # type: ignore[index]
SECRET = "0" * 48


preflight = SimpleNamespace(**runpy.run_path(str(FILE), run_name="preflight"))
GLOBALS: dict[str, object] = preflight.main.__globals__


class Machine:
    """A machine with an engine in ``folder``, which has an answer for each subcommand, and secrets."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys = folder, capsys
        self.answers = {"context": "unix:///var/run/docker.sock", "info": str(folder), "image": "sha256:1"}
        self.secrets = folder / ".env"
        self.write({})

    def write(self, values: dict[str, str]) -> None:
        self.secrets.write_text("\n".join(f"{name}={values.get(name, SECRET)}" for name in SECRETS))
        self.secrets.chmod(0o600)

    def error(self) -> str:
        program = self.folder / "docker"
        cases = [f"{command}) echo '{answer}';;" for command, answer in self.answers.items()]
        program.write_text("\n".join(["#!/bin/sh", "case $1 in", *cases, "*) exit 1;;", "esac"]))
        program.chmod(0o755)
        code = preflight.main(["--secrets", str(self.secrets)])
        error = self.capsys.readouterr().err
        assert code == (2 if error else 0)
        assert error.count("\n") == (1 if error else 0)
        assert SECRET not in error
        return error


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Machine:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    for name in ("DOCKER", "FREE_GB"):
        monkeypatch.delenv(name, raising=False)
    return Machine(tmp_path, capsys)


def test_disk_space_of_the_engine(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = os.statvfs(machine.folder)
    free = disk.f_bavail * disk.f_frsize / 1e9
    monkeypatch.setitem(GLOBALS, "RUNNING_GB", free / 2)
    monkeypatch.setitem(GLOBALS, "BUILDING_GB", free * 2)
    assert machine.error() == ""
    del machine.answers["image"]
    assert machine.error().startswith(f"{machine.folder}, which holds the engine's images and volumes, has")
    monkeypatch.setenv("FREE_GB", "0.001")
    assert machine.error() == ""
    monkeypatch.setenv("FREE_GB", "much")
    assert "FREE_GB=much is not a number" in machine.error()


@pytest.mark.parametrize(
    ("command", "answer"),
    [("context", "ssh://user@host"), ("info", "/no/such/folder"), ("info", "")],
    ids=["on another machine", "in a virtual machine", "stopped"],
)
def test_a_disk_that_cannot_be_seen_is_not_checked(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, command: str, answer: str
) -> None:
    monkeypatch.setitem(GLOBALS, "RUNNING_GB", 1e9)
    machine.answers[command] = answer
    assert machine.error() == ""


def test_secrets_that_break_a_url_or_that_others_can_read(machine: Machine) -> None:
    for value in ("a@b", "a:b", "a b", 'a"b', "a$b", "é"):
        machine.write({SECRETS[-1]: value})
        error = machine.error()
        assert error.startswith(f"{SECRETS[-1]} in ")
        assert value not in error
    for mode in (0o644, 0o640, 0o606):
        machine.secrets.chmod(mode)
        assert f"can be read by others (mode {mode:03o}): run chmod 600 {machine.secrets}" in machine.error()


def test_secrets_that_cannot_be_read(machine: Machine) -> None:
    machine.secrets.write_bytes(b"\xff\xfe")
    assert "cannot be read" in machine.error()
    machine.secrets.unlink()
    assert "No such file or directory" in machine.error()
    machine.secrets.mkdir()
    assert "Is a directory" in machine.error()


@pytest.mark.parametrize("target", ["up", "test-stack"])
def test_make_fails_before_it_builds_or_installs(tmp_path: Path, target: str) -> None:
    (tmp_path / "docker").mkdir()
    (tmp_path / "Makefile").write_text(MAKEFILE)
    for name in ("preflight.py", "compose.yaml"):
        (tmp_path / "docker" / name).write_bytes((ROOT / "docker" / name).read_bytes())
    command = ["make", target, "DOCKER=no-such-engine", f"PYTHON={sys.executable}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0
    assert "no-such-engine: " in done.stderr
    assert not (tmp_path / ".venv").exists()
