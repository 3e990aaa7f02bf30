"""Tests of the stack's files, without an engine: images, privileges, ports, no secret."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
TEXT = (DOCKER / "compose.yaml").read_text()
STACK: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES: dict[str, dict[str, Any]] = STACK["services"]
DOCKERFILE = (DOCKER / "Dockerfile").read_text()
SECRETS = re.search(r"^SECRETS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()  # type: ignore[index]

BUILT = ("Dockerfile", "store/Dockerfile", "postgres/Dockerfile")
ARGUMENTS = {"BASE", "BUILD_BASE", "PYTORCH", "PIP_EXTRA_INDEX_URL", "MCVRP_EXTRAS"}

every_service = pytest.mark.parametrize("name", SERVICES)


def environment(name: str) -> dict[str, str]:
    return {key: str(value) for key, value in SERVICES[name].get("environment", {}).items()}


@every_service
def test_a_service_has_no_privileges(name: str) -> None:
    service = SERVICES[name]
    assert re.match(r"[^:]+:\d+\.\d+", service["image"]), "the image has no version"
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not service.keys() & {"privileged", "pid", "ipc", "devices"}
    assert not service["user"].startswith(("0", "root"))
    assert "cap_add" not in service
    assert {volume.split(":")[0] for volume in service.get("volumes", ())} <= STACK["volumes"].keys()


@every_service
def test_ports_are_bound_to_this_machine_by_default(name: str) -> None:
    """One variable selects another address; database and Ray's control service have no port."""
    ports = SERVICES[name].get("ports", [])
    assert all(port.startswith("${MCVRP_HOST:-127.0.0.1}:") for port in ports)
    assert bool(ports) == (name in {"prefect", "s3", "ray-head"})
    assert "network_mode" not in SERVICES[name]


def test_no_secret_is_written_down() -> None:
    used = set(re.findall(r"\$\{(\w+)", TEXT))
    assert used == {*SECRETS, "MCVRP_HOST", "MCVRP_PRESET", *ARGUMENTS}
    for name in SECRETS:
        assert f"${{{name}:-" not in TEXT
        assert f"${{{name}:?" in TEXT
    for name in SERVICES:
        for key, value in environment(name).items():
            if re.search("PASSWORD|SECRET|TOKEN|KEY|AUTH_STRING", key):
                assert "${" in value, f"{name}: {key}"
    assert ".env" in (ROOT / ".gitignore").read_text().split()
    assert {".git", ".venv", "store", "logs", "**/.env"} <= set((ROOT / ".dockerignore").read_text().split())


def test_secrets_are_generated_once(tmp_path: Path) -> None:
    (tmp_path / "docker").mkdir()
    (tmp_path / "Makefile").write_bytes((ROOT / "Makefile").read_bytes())
    texts = []
    for _ in range(2):
        subprocess.run(["make", "docker/.env"], cwd=tmp_path, check=True, capture_output=True)
        texts.append((tmp_path / "docker" / ".env").read_text())
    assert texts[0] == texts[1]
    secrets = dict(line.split("=") for line in texts[0].split())
    assert list(secrets) == SECRETS
    assert len(set(secrets.values())) == len(secrets)
    assert all(re.fullmatch("[0-9a-f]{48}", value) for value in secrets.values())
    assert (tmp_path / "docker" / ".env").stat().st_mode & 0o077 == 0


# The images ------------------------------------------------------------------------------------


def stages(file: str) -> dict[str, list[str]]:
    stages: dict[str, list[str]] = {}
    for line in re.sub(r"\\\n", " ", (DOCKER / file).read_text()).splitlines():
        if line.startswith("FROM "):
            stages[line.split()[-1]] = lines = []
        elif stages and re.match(r"[A-Z]+ ", line):
            lines.append(line)
    return stages


@pytest.mark.parametrize("file", BUILT)
def test_images_are_built_from_a_pinned_base(file: str) -> None:
    text = (DOCKER / file).read_text()
    assert re.findall(r"^ARG BASE=(.*)$", text, re.MULTILINE) == ["debian:12.12-slim"]
    assert "\nADD " not in text
    allowed = {*stages(file), "${BASE}", "${BUILD_BASE}"}
    assert {line.split()[1] for line in text.splitlines() if line.startswith("FROM ")} <= allowed
    built = [service["build"] for service in SERVICES.values() if "build" in service]
    assert {build["args"]["BASE"] for build in built} == {"${BASE:-debian:12.12-slim}"}


@pytest.mark.parametrize(("file", "stage"), [(BUILT[0], "image"), *((f, "${BASE}") for f in BUILT[1:])])
def test_an_image_runs_as_an_ordinary_user(file: str, stage: str) -> None:
    lines = stages(file)[stage]
    assert [line for line in lines if line.startswith("USER ")] == ["USER mcvrp"]
    assert not re.search(r"^(ARG|ENV) .*(SECRET|TOKEN|PASSWORD|ACCESS_KEY)", "\n".join(lines), re.MULTILINE)


def test_pytorch_is_the_one_of_the_constraints() -> None:
    (pinned,) = re.findall(r"^torch==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert set(re.findall(r'^ARG PYTORCH="torch==(\S+)"$', DOCKERFILE, re.MULTILINE)) == {pinned}
