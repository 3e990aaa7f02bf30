"""Tests of the files for Kubernetes, without a cluster: images, names, privileges, no secret."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from mcvrp.flows.config.preset import preset_names

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docker" / "kubernetes"
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text())[
    "services"
]
PAGE = (ROOT / "docs" / "kubernetes.md").read_text()
FILES = {path.name: yaml.safe_load(path.read_text()) for path in sorted(FOLDER.glob("*.yaml"))}
SHARED: dict[str, str] = FILES["environment.yaml"]["data"]
SERVER, SERVE = FILES["prefect-server.yaml"], FILES["serve.yaml"]["spec"]["template"]["spec"]
RAY = FILES["ray.yaml"]["spec"]
NODES = [RAY["headGroupSpec"], *RAY["workerGroupSpecs"]]


def everything(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for below in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from everything(below)


def test_the_page_names_each_file() -> None:
    assert set(re.findall(r"`docker/kubernetes/([\w-]+\.yaml)` \|", PAGE)) == set(FILES)
    assert "Not yet tested on a cluster" in PAGE


def test_the_cluster_is_of_the_ray_that_is_installed() -> None:
    """KubeRay checks versions from 2.53 by HTTP, older ones with wget, which the image does not have."""
    (pinned,) = re.findall(r"^ray==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert RAY["rayVersion"] == pinned


def images(files: Any) -> list[str]:
    mappings = list(everything(files))
    images = [mapping["image"] for mapping in mappings if isinstance(mapping.get("image"), str)]
    return images + [f"{m['repository']}:{m['prefectTag']}" for m in mappings if "repository" in m]


def test_images_are_those_of_the_compose_file() -> None:
    assert set(images(list(FILES.values()))) <= {service["image"] for service in SERVICES.values()}


def test_variables_are_those_of_the_compose_file() -> None:
    variables = {name for service in SERVICES.values() for name in service.get("environment", ())}
    assert SHARED.keys() <= variables
    for mapping in everything(list(FILES.values())):
        for key in mapping.keys() & {"env", "extraEnvVars"}:
            assert {entry["name"] for entry in mapping[key]} <= variables


def test_addresses_are_those_of_services() -> None:
    head = f"{FILES['ray.yaml']['metadata']['name']}-head-svc"
    (served,) = SERVE["containers"]
    (address,) = (entry["value"] for entry in served["env"] if entry["name"] == "RAY_ADDRESS")
    assert address == f"{head}:6379"
    assert SHARED["PREFECT_API_URL"].startswith("http://prefect-server:4200/")


def test_commands_exist() -> None:
    (store,), (served,) = SERVE["initContainers"], SERVE["containers"]
    assert store["command"][:2] == ["python", "-m"]
    assert importlib.util.find_spec(store["command"][2])
    assert served["command"] == ["tini", "--", "mcvrp", "ui"]
    assert served["args"][0] == "--preset"
    assert served["args"][1] in preset_names()


def test_no_secret_is_written_down() -> None:
    used = {"auth_token"}  # KubeRay's own, by authOptions.secretName
    for mapping in everything(list(FILES.values())):
        name = str(mapping.get("name", ""))
        if re.search("PASSWORD|SECRET|TOKEN|ACCESS_KEY|AUTH_STRING", name):
            assert mapping.keys() == {"name", "valueFrom"}, name
        if "secretKeyRef" in mapping:
            assert mapping["secretKeyRef"]["name"] == "mcvrp"
            used.add(mapping["secretKeyRef"]["key"])
    assert SERVER["server"]["basicAuth"] == {"enabled": True, "existingSecret": "mcvrp"}
    used.add("auth-string")
    assert SERVER["secret"] == {"create": False, "name": "mcvrp"}
    used.add("connection-string")
    (made,) = re.findall(r"cat > secrets <<END\n(.*?)\n    END", PAGE, re.DOTALL)
    assert {line.strip().partition("=")[0] for line in made.splitlines()} == used
    assert not re.search("PASSWORD|SECRET|TOKEN|ACCESS_KEY|AUTH_STRING", " ".join(SHARED))


def test_a_pod_has_no_privileges() -> None:
    user, group = map(int, SERVICES["serve"]["user"].split(":"))
    none = {"drop": ["ALL"]}
    for pod in [SERVE, *(node["template"]["spec"] for node in NODES)]:
        who = pod["securityContext"]
        assert (who["runAsUser"], who["runAsGroup"], who["runAsNonRoot"]) == (user, group, True)
        assert pod["automountServiceAccountToken"] is False
        for part in [*pod.get("initContainers", ()), *pod["containers"]]:
            assert part["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": none}
    values = SERVER["server"]  # the others are set by the chart
    assert values["command"][:2] == ["tini", "--"]  # it reaps processes
    assert values["podSecurityContext"] == {"runAsUser": user, "fsGroup": group}
    assert values["containerSecurityContext"] == {"runAsUser": user, "capabilities": none}


def test_the_program_that_reaps_is_in_the_images() -> None:
    dockerfile = (ROOT / "docker" / "Dockerfile").read_text()
    assert re.search(r"^FROM \$\{BASE\} AS base\n(#.*\n)*RUN .*\binstall\b.* tini ", dockerfile, re.MULTILINE)


def test_the_command_of_the_page_adds_a_registry_to_each_image(tmp_path: Path) -> None:
    (line,) = re.findall(r"^ {4}(sed .*)$", PAGE, re.MULTILINE)
    for path in FOLDER.glob("*.yaml"):
        shutil.copy(path, tmp_path)
    subprocess.run(["sh", "-c", line], cwd=tmp_path, check=True)
    changed = images([yaml.safe_load(path.read_text()) for path in tmp_path.glob("*.yaml")])
    assert len(changed) == len(images(list(FILES.values()))) == 6
    assert all(image.startswith("registry.example/mcvrp") for image in changed)
