"""The containers' files, which no engine has read: pinned, unprivileged, local, healthy, without a secret."""

from __future__ import annotations

import re
import shlex
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
ONCE = {"bucket", "s3-owner", "mcvrp"}  # they end
DOCKERFILE = (DOCKER / "Dockerfile").read_text()
INSTRUCTIONS = [
    (line.split()[0], line)
    for line in re.sub(r"\\\n", " ", DOCKERFILE).splitlines()
    if re.match(r"[A-Z]+ ", line)
]
SECRETS = re.search(r"^SECRETS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()  # type: ignore[index]

every_service = pytest.mark.parametrize("name", SERVICES)


def environment(name: str) -> dict[str, str]:
    return {key: str(value) for key, value in SERVICES[name].get("environment", {}).items()}


@every_service
def test_an_image_is_pinned(name: str) -> None:
    """By a version of three numbers or more of the release, never "latest"."""
    image, _, tag = SERVICES[name]["image"].rpartition(":")
    assert image
    assert re.match(r"\d+\.\d+", tag)


@every_service
def test_a_service_has_no_privileges(name: str) -> None:
    """It is nobody special and has no capabilities; who hands over a folder may do only that."""
    service = SERVICES[name]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not service.keys() & {"privileged", "pid", "ipc", "devices"}
    if name == "s3-owner":
        assert (service["user"], service["cap_add"], service["network_mode"]) == ("0:0", ["CHOWN"], "none")
        assert service["entrypoint"][0] == "chown"
    else:
        assert not service["user"].startswith(("0", "root"))
        assert "cap_add" not in service


@every_service
def test_a_port_is_open_to_this_machine_unless_told(name: str) -> None:
    """One variable opens all of them; database, Ray's control and its nodes are open to nobody."""
    ports = SERVICES[name].get("ports", [])
    assert all(port.startswith("${MCVRP_HOST:-127.0.0.1}:") for port in ports)
    assert bool(ports) == (name in {"prefect", "s3", "ray-head"})
    assert SERVICES[name].get("network_mode") in (None, "none")


@every_service
def test_a_service_says_whether_it_is_well(name: str) -> None:
    """A service that needs another waits until it is; a job that ends is waited for to its end."""
    service = SERVICES[name]
    assert ("healthcheck" in service) == (name not in ONCE)
    for other, how in service.get("depends_on", {}).items():
        ends = "service_completed_successfully" if other in ONCE else "service_healthy"
        assert how == {"condition": ends}
    assert service["restart"] == ("no" if name in ONCE else "unless-stopped")


@every_service
def test_a_volume_is_declared(name: str) -> None:
    """Nothing of the machine is mounted."""
    for volume in SERVICES[name].get("volumes", ()):
        assert volume.split(":")[0] in STACK["volumes"]


def test_no_secret_is_written_down() -> None:
    """Each comes from the environment, and `make up` makes it; git and the images never see it."""
    used = set(re.findall(r"\$\{(\w+)", TEXT))
    assert used == {*SECRETS, "MCVRP_HOST"}
    for name in SECRETS:
        assert f"${{{name}:-" not in TEXT
        assert f"${{{name}:?" in TEXT
    for name in SERVICES:
        for key, value in environment(name).items():
            if re.search("PASSWORD|SECRET|TOKEN|KEY|AUTH_STRING", key):
                assert "${" in value, f"{name}: {key}"
    for ignored in (".gitignore", ".dockerignore"):
        assert re.search(r"^(\*\*/)?\.env$", (ROOT / ignored).read_text(), re.MULTILINE)


def test_secrets_are_made_once(tmp_path: Path) -> None:
    """Random, long, and for their owner's eyes only; a second time nothing changes."""
    (tmp_path / "docker").mkdir()
    (tmp_path / "Makefile").write_bytes((ROOT / "Makefile").read_bytes())
    texts = []
    for _ in range(2):
        subprocess.run(["make", "docker/.env"], cwd=tmp_path, check=True, capture_output=True)
        texts.append((tmp_path / "docker" / ".env").read_text())
    assert texts[0] == texts[1]
    made = dict(line.split("=") for line in texts[0].split())
    assert list(made) == SECRETS
    assert len(set(made.values())) == len(made)
    assert all(re.fullmatch("[0-9a-f]{48}", value) for value in made.values())
    assert (tmp_path / "docker" / ".env").stat().st_mode & 0o077 == 0


def test_who_asks_prefect_or_ray_has_to_say_who() -> None:
    """The server has a password, and who reports to it knows it; every node of Ray has the token."""
    password = environment("prefect")["PREFECT_SERVER_API_AUTH_STRING"]
    assert password.startswith("mcvrp:${PREFECT_PASSWORD")
    for service in ("worker", "mcvrp", "ray-head", "ray-worker", "ray-gpu"):
        assert environment(service)["PREFECT_API_AUTH_STRING"].startswith("mcvrp:${PREFECT_PASSWORD")
        assert environment(service)["RAY_AUTH_MODE"] == "token"
        assert environment(service)["RAY_AUTH_TOKEN"].startswith("${RAY_AUTH_TOKEN")


def test_whoever_trains_keeps_labels_on_a_volume() -> None:
    """Each service that can start a rank has the cache of labels on the volume, and is told where."""
    training = {name: service for name, service in SERVICES.items() if "MCVRP_STORE" in environment(name)}
    del training["bucket"]
    assert training.keys() == {"ray-head", "ray-worker", "ray-gpu", "worker", "mcvrp"}
    for service in training.values():
        assert f"cache:{service['environment']['MCVRP_CACHE']}" in service["volumes"]


# The images ------------------------------------------------------------------------------------


def test_images_are_built_from_a_pinned_one() -> None:
    """There is one for processors, which is the default, and one for GPUs; services build what there is."""
    stages = [line.split() for word, line in INSTRUCTIONS if word == "FROM"]
    assert [stage[-1] for stage in stages] == ["base", "gpu", "cpu"]
    assert re.fullmatch(r"python:\d+\.\d+\.\d+-slim-\w+", stages[0][1])
    targets = {service["build"]["target"] for service in SERVICES.values() if "build" in service}
    assert targets == {"gpu", "cpu"}


@pytest.mark.parametrize("stage", ["gpu", "cpu"])
def test_an_image_runs_as_nobody_special(stage: str) -> None:
    """The user is not root, packages keep to the constraints, nothing secret is an argument."""
    lines = DOCKERFILE.split(f" AS {stage}\n")[1].split("\nFROM ")[0]
    assert re.findall(r"^USER (\w+)$", lines, re.MULTILINE) == ["mcvrp"]
    installs = [part for line in lines.splitlines() for part in line.split("&&") if "pip install" in part]
    assert installs
    assert all("-c constraints.txt" in install or "--no-deps" in install for install in installs)
    assert not re.search(r"^(ARG|ENV) .*(SECRET|TOKEN|PASSWORD|ACCESS_KEY)", lines, re.MULTILINE)


def test_pytorch_is_the_one_of_the_constraints() -> None:
    """The images name its wheels themselves."""
    (pinned,) = re.findall(r"^torch==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert set(re.findall(r'^ARG \w+_TORCH="torch==(\S+)"$', DOCKERFILE, re.MULTILINE)) == {pinned}


def test_what_is_copied_into_an_image_is_no_history_and_no_secret() -> None:
    """`COPY . .` takes everything but what .dockerignore names."""
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert {".git", ".venv", "store", "logs", "**/.env"} <= set(ignored)
    assert not any(word == "ADD" for word, _ in INSTRUCTIONS)


@every_service
def test_a_command_is_one_that_there_is(name: str) -> None:
    """Its program comes with the image, or with the package."""
    command = SERVICES[name].get("entrypoint") or SERVICES[name].get("command") or ["postgres"]
    ours = {"prefect", "ray", "mcvrp", "python", "sh"}
    theirs = {"s3": {"server"}, "s3-owner": {"chown"}, "postgres": {"postgres"}}
    assert shlex.split(command[0])[0] in theirs.get(name, ours)
