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
DOCKERFILE = (DOCKER / "Dockerfile").read_text().replace("\\\n", " ")
SECRETS = re.search(r"^SECRETS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()  # type: ignore[index]

OPTIONS = {
    "BASE",
    "BUILD_BASE",
    "PYTORCH",
    "PIP_EXTRA_INDEX_URL",
    "MCVRP_EXTRAS",
    "MCVRP_HOST",
    "MCVRP_ENV_FILE",
}
OPTIONS |= {"PREFECT_UI_API_URL", "PREFECT_SERVER_CORS_ALLOWED_ORIGINS"}

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
    """One variable selects another address; Ray's control service has no port."""
    ports = SERVICES[name].get("ports", [])
    assert all(port.startswith("${MCVRP_HOST:-127.0.0.1}:") for port in ports)
    assert bool(ports) == (name in {"prefect", "ray-head"})
    assert "network_mode" not in SERVICES[name]


@every_service
def test_the_env_file_names_store_database_and_preset(name: str) -> None:
    """What a service's own environment names, the file could not change."""
    assert SERVICES[name]["env_file"] == "${MCVRP_ENV_FILE:-.env}"
    assert not [key for key in environment(name) if re.match("AWS_|MCVRP_|.*CONNECTION_URL", key)]


def test_no_secret_is_written_down() -> None:
    used = set(re.findall(r"\$\{(\w+)", TEXT))
    assert used == {*SECRETS, *OPTIONS}
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


# The image ------------------------------------------------------------------------------------


def test_the_image_is_built_from_a_pinned_base_and_runs_as_an_ordinary_user() -> None:
    assert re.findall(r"^ARG BASE=(.*)$", DOCKERFILE, re.MULTILINE) == ["debian:12.12-slim"]
    (build,) = [service["build"] for service in SERVICES.values() if "build" in service]
    assert build["args"]["BASE"] == "${BASE:-debian:12.12-slim}"
    assert set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)) == {"${BUILD_BASE}", "build", "${BASE}"}
    assert "\nADD " not in DOCKERFILE
    assert re.findall(r"^USER (.*)$", DOCKERFILE, re.MULTILINE) == ["mcvrp"]
    assert not re.search(r"^(ARG|ENV) .*(SECRET|TOKEN|PASSWORD|ACCESS_KEY)", DOCKERFILE, re.MULTILINE)


def test_pytorch_is_the_one_of_the_constraints() -> None:
    (pinned,) = re.findall(r"^torch==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert set(re.findall(r'^ARG PYTORCH="torch==(\S+)"$', DOCKERFILE, re.MULTILINE)) == {pinned}
