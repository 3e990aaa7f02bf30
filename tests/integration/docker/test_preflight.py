"""What keeps the stack from coming up is said in one sentence, before anything is built or started.

The engine is a program that answers as Docker's does; sockets, files and disks are real.
"""

from __future__ import annotations

import importlib.util
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from mcvrp.tasks.support.processes import free_port

ROOT = Path(__file__).parents[3]
FILE = ROOT / "docker" / "preflight.py"
MAKEFILE = (ROOT / "Makefile").read_text()
SECRETS = re.search(r"^SECRETS := (.*)$", MAKEFILE, re.MULTILINE)[1].split()  # type: ignore[index]
_NOT_RUNNING = (
    "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"
)
_NOT_ALLOWED = (
    "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock: "
    'Get "http://%2Fvar%2Frun%2Fdocker.sock/v1.50/version": dial unix /var/run/docker.sock: connect: '
    "permission denied"
)


def _preflight() -> ModuleType:
    spec = importlib.util.spec_from_file_location("preflight", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


preflight = _preflight()


class Machine:
    """An engine of Docker's manner in ``folder``; each question has an answer, as text or as a complaint."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.answers = {
            "version": "20.10.24+dfsg1",
            "compose": "2.17.2",
            "context": "unix:///var/run/docker.sock",
            "info": str(folder),
            "image": "sha256:1",
            "ps": "",
        }
        self.complaints: dict[str, str] = {}
        self.secrets = folder / ".env"
        self.write("\n".join(f"{name}={'0' * 48}" for name in SECRETS))

    def write(self, text: str) -> None:
        """Write the file of secrets, for its owner's eyes only."""
        self.secrets.write_text(text)
        self.secrets.chmod(0o600)

    def said(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
        """Return what is said on stderr; nothing where all is well."""
        program = self.folder / "docker"
        cases = [f"{word}) echo '{answer}';;" for word, answer in self.answers.items()]
        cases = [f"{word}) echo '{words}' >&2; exit 1;;" for word, words in self.complaints.items()] + cases
        program.write_text("\n".join(["#!/bin/sh", "case $1 in", *cases, "esac"]))
        program.chmod(0o755)
        code = preflight.main(["--secrets", str(self.secrets), *arguments])
        error = capsys.readouterr().err
        assert code == (2 if error else 0)
        assert error.count("\n") == (1 if error else 0)
        assert len(error) <= 300 + len(str(self.folder))
        assert "0" * 48 not in error
        return error


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """One on which the stack would come up."""
    found = Machine(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    for name in ("DOCKER", "MCVRP_HOST", "FREE_GB"):
        monkeypatch.delenv(name, raising=False)
    compose = tmp_path / "compose.yaml"  # the real one, with a port that is free
    text = (ROOT / "docker" / "compose.yaml").read_text()
    compose.write_text(re.sub(r":\d+:(\d+)\"\]", f':{found.port}:\\1"]', text))
    monkeypatch.setattr(preflight, "COMPOSE_FILE", compose)
    return found


def test_a_machine_that_is_well(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is said."""
    assert machine.said(capsys) == ""


def test_no_engine(
    machine: Machine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its program is not there, or is none."""
    monkeypatch.setenv("DOCKER", "no-such-engine --host here")
    assert "no container engine (no-such-engine --host here: No such file" in machine.said(capsys)
    monkeypatch.setenv("DOCKER", str(machine.secrets))
    assert "Permission denied" in machine.said(capsys)


@pytest.mark.parametrize(
    ("word", "complaint", "sentence"),
    [
        ("version", _NOT_RUNNING, "the container engine does not run (Cannot connect to the Docker daemon"),
        ("version", _NOT_ALLOWED, "the container engine does not let you in: become a member of its group"),
        ("version", "", "does not run (it says nothing): start it"),
        ("compose", "docker: unknown command: docker compose", "has no `docker compose`: install"),
    ],
)
def test_an_engine_that_does_not_answer(
    machine: Machine, capsys: pytest.CaptureFixture[str], word: str, complaint: str, sentence: str
) -> None:
    """In its words, or in ours."""
    machine.complaints[word] = complaint
    assert sentence in machine.said(capsys)


@pytest.mark.parametrize(
    ("word", "version", "refused"),
    [
        ("version", "19.03.15", True),
        ("version", "20.9.0", True),
        ("version", "28.2.2", False),
        ("compose", "1.29.2", True),
        ("compose", "v2.16.0", True),
        ("compose", "v2.17.0-desktop.1", False),
        ("compose", "dev", False),
    ],
)
def test_an_engine_that_is_too_old(
    machine: Machine, capsys: pytest.CaptureFixture[str], word: str, version: str, refused: bool
) -> None:
    """Its version is named, and the first that will do; what is no version is let pass."""
    machine.answers[word] = version
    said = machine.said(capsys)
    assert (f"is {version}, too old: install" in said) if refused else said == ""


def test_no_room_on_the_engine_s_disk(
    machine: Machine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of its folder counts; more is needed before images are built; what is asked for has its way."""
    disk = os.statvfs(machine.folder)
    free = disk.f_bavail * disk.f_frsize / 1e9
    monkeypatch.setattr(preflight, "RUNNING_GB", free / 2)
    monkeypatch.setattr(preflight, "BUILDING_GB", free * 2)
    assert machine.said(capsys) == ""
    machine.complaints["image"] = "Error: No such image: mcvrp:0.1.0"
    said = machine.said(capsys)
    assert said.startswith(f"{machine.folder}, where the container engine keeps images and volumes, has")
    assert f"of the {free * 2:g} GB needed: make room" in said
    monkeypatch.setenv("FREE_GB", "0.001")
    assert machine.said(capsys) == ""
    monkeypatch.setenv("FREE_GB", "much")
    assert "FREE_GB=much is no number" in machine.said(capsys)
    monkeypatch.delenv("FREE_GB")
    machine.answers["info"] = "/no/such/folder"  # of the virtual machine that the engine runs in
    assert machine.said(capsys) == ""


def test_a_port_that_is_taken(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    """By another program; not by the stack itself, nor on the machine of an engine elsewhere."""
    with socket.create_server(("127.0.0.1", machine.port)):
        assert f"port {machine.port} of 127.0.0.1 is taken by another program" in machine.said(capsys)
        machine.answers["context"] = "ssh://somebody@elsewhere"
        assert machine.said(capsys) == ""
        machine.answers["context"] = "unix:///var/run/docker.sock"
        machine.answers["ps"] = f"127.0.0.1:{machine.port}->4200/tcp"
        assert machine.said(capsys) == ""
    machine.answers["ps"] = ""
    assert machine.said(capsys) == ""


@pytest.mark.parametrize("host", ["192.0.2.254", "no-such-host.invalid"])
def test_an_address_of_another_machine(
    machine: Machine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    """Nobody can listen there."""
    monkeypatch.setenv("MCVRP_HOST", host)
    assert f"MCVRP_HOST={host} is no address of this machine" in machine.said(capsys)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o606])
def test_secrets_that_others_may_read(
    machine: Machine, capsys: pytest.CaptureFixture[str], mode: int
) -> None:
    """The mode is named, and the command that mends it."""
    machine.secrets.chmod(mode)
    said = machine.said(capsys)
    assert f"may be read by others (its mode is {mode:03o}): chmod 600 {machine.secrets}" in said


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize("value", ["", "a@b", "a:b", "a b", 'a"b', "a$b", "é"])
def test_secrets_that_break_what_they_become_part_of(
    machine: Machine, capsys: pytest.CaptureFixture[str], name: str, value: str
) -> None:
    """Each is named, and not shown."""
    machine.write(machine.secrets.read_text().replace(f"{name}={'0' * 48}", f"{name}={value}"))
    said = machine.said(capsys)
    assert name in said
    assert not value or value not in said
    assert ("has no" in said) == (not value)


def test_secrets_that_cannot_be_read(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder, bytes, nothing at all."""
    machine.secrets.write_bytes(b"\xff\xfe")
    assert "cannot be read (it is no text)" in machine.said(capsys)
    machine.secrets.unlink()
    assert "cannot be read (No such file or directory)" in machine.said(capsys)
    machine.secrets.mkdir()
    assert "cannot be read (Is a directory)" in machine.said(capsys)


def test_the_secrets_that_make_writes_are_well(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    """All that the compose file asks for, for their owner's eyes."""
    work = machine.folder / "work"
    (work / "docker").mkdir(parents=True)
    (work / "Makefile").write_text(MAKEFILE)
    subprocess.run(["make", "docker/.env"], cwd=work, check=True, capture_output=True)
    machine.secrets = work / "docker" / ".env"
    assert machine.said(capsys) == ""


@pytest.mark.parametrize("target", ["up", "test-stack"])
def test_make_says_it_before_it_does_anything(machine: Machine, target: str) -> None:
    """And fails: nothing has been built, nothing installed."""
    work = machine.folder / "work"
    (work / "docker").mkdir(parents=True)
    (work / "Makefile").write_text(MAKEFILE)
    for name in ("preflight.py", "compose.yaml"):
        (work / "docker" / name).write_bytes((ROOT / "docker" / name).read_bytes())
    asked = ["make", target, "DOCKER=no-such-engine", f"PYTHON={sys.executable}"]
    done = subprocess.run(asked, cwd=work, capture_output=True, text=True)
    assert done.returncode != 0
    assert "there is no container engine (no-such-engine: No such file or directory)" in done.stderr
    assert not (work / ".venv").exists()
