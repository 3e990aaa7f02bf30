"""The Kubernetes manifests, without a cluster: consistent with the compose file, unprivileged, no secrets."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from mcvrp.flows.config.preset import preset_names
from mcvrp.flows.server.deployments import POOL, prefect_yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docker" / "kubernetes"
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text())[
    "services"
]
PAGE = (ROOT / "docs" / "kubernetes.md").read_text()
FILES = {path.name: yaml.safe_load(path.read_text()) for path in sorted(FOLDER.glob("*.yaml"))}
SHARED: dict[str, str] = FILES["environment.yaml"]["data"]
SERVER, WORKER = FILES["prefect-server.yaml"], FILES["prefect-worker.yaml"]["worker"]
JOB = FILES["deployments.yaml"]["spec"]["template"]["spec"]
RAY = FILES["ray.yaml"]["spec"]
NODES = {
    "ray-head": RAY["headGroupSpec"],
    "ray-worker": RAY["workerGroupSpecs"][0],
    "ray-gpu": RAY["workerGroupSpecs"][1],
}
# Set by the charts and KubeRay themselves
BY_CHART = {"PREFECT_API_URL", "PREFECT_API_AUTH_STRING"}
BY_KUBERAY = {"RAY_AUTH_MODE", "RAY_AUTH_TOKEN"}
BY_SERVER_CHART = {  # command, secret, basicAuth and uiConfig
    "PREFECT_API_DATABASE_CONNECTION_URL",
    "PREFECT_SERVER_API_AUTH_STRING",
    "PREFECT_UI_API_URL",
    "PREFECT_UI_STATIC_DIRECTORY",
}


def container(service: str) -> dict[str, Any]:
    found: dict[str, Any] = NODES[service]["template"]["spec"]["containers"][0]
    return found


def names(entries: list[dict[str, Any]]) -> set[str]:
    return {entry["name"] for entry in entries}


def everything(value: Any) -> Iterator[dict[str, Any]]:
    """Yield each mapping in ``value``, at any depth."""
    if isinstance(value, dict):
        yield value
    for below in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from everything(below)


def test_the_page_names_each_file() -> None:
    """And no other."""
    assert set(re.findall(r"`docker/kubernetes/([\w-]+\.yaml)` \|", PAGE)) == set(FILES)
    assert "Not yet tested on a cluster" in PAGE


def test_ray_and_prefect_run_the_images_of_the_compose_file() -> None:
    """Also the jobs before them; KubeRay is given the version of Ray that the images contain."""
    images = {service: container(service)["image"] for service in NODES}
    worker, server = WORKER["image"], SERVER["global"]["prefect"]["image"]
    images["worker"] = f"{worker['repository']}:{worker['prefectTag']}"
    images["prefect"] = f"{server['repository']}:{server['prefectTag']}"
    assert images == {service: SERVICES[service]["image"] for service in images}
    jobs = [*JOB["initContainers"], *JOB["containers"]]
    assert {job["image"] for job in jobs} == {SERVICES["bucket"]["image"]}
    (pinned,) = re.findall(r"^ray==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert RAY["rayVersion"] == pinned


@pytest.mark.parametrize(
    ("service", "entries", "by_others"),
    [
        *((service, container(service)["env"], SHARED.keys() | BY_KUBERAY) for service in NODES),
        ("worker", WORKER["extraEnvVars"], SHARED.keys() | BY_CHART),
        ("prefect", SERVER["server"]["env"], BY_SERVER_CHART),
    ],
)
def test_a_pod_has_the_variables_of_the_compose_file(
    service: str, entries: list[dict[str, Any]], by_others: set[str]
) -> None:
    """Its own, the shared ones, and those that the chart or KubeRay sets."""
    assert names(entries) | by_others == SERVICES[service]["environment"].keys()


def test_shared_variables_have_the_values_of_the_compose_file() -> None:
    """Except the host name of Prefect's server, which is the chart's; all pods read them."""
    values = {key: str(value) for key, value in SERVICES["worker"]["environment"].items()}
    values["PREFECT_API_URL"] = values["PREFECT_API_URL"].replace("//prefect:", "//prefect-server:")
    assert {key: values[key] for key in SHARED} == SHARED
    assert WORKER["selfHostedServerApiConfig"]["apiUrl"] == SHARED["PREFECT_API_URL"]
    assert WORKER["extraEnvVarsCMs"] == ["mcvrp"]
    for part in (*map(container, NODES), *JOB["initContainers"], *JOB["containers"]):
        assert {"configMapRef": {"name": "mcvrp"}} in part["envFrom"]


def test_ports_and_addresses_fit_together() -> None:
    """Ray's head and Prefect's server are reachable by the worker and the UI."""
    head = f"{FILES['ray.yaml']['metadata']['name']}-head-svc"  # as KubeRay calls it
    (address,) = (entry["value"] for entry in WORKER["extraEnvVars"] if entry["name"] == "RAY_ADDRESS")
    assert address == SERVICES["worker"]["environment"]["RAY_ADDRESS"].replace("ray-head", head)
    opened = {port["name"]: port["containerPort"] for port in container("ray-head")["ports"]}
    assert opened == {"gcs-server": int(address.rpartition(":")[2]), "dashboard": 8265}
    port = SERVICES["prefect"]["ports"][0].rpartition(":")[2]
    assert SERVER["server"]["uiConfig"]["prefectUiApiUrl"] == f"http://127.0.0.1:{port}/api"
    assert SHARED["PREFECT_API_URL"] == f"http://prefect-server:{port}/api"
    assert RAY["authOptions"]["mode"] == "token"


def test_the_worker_serves_our_pool_and_keeps_labels_on_a_volume() -> None:
    """Its command is that of the compose file."""
    assert " ".join([*WORKER["command"][2:], *WORKER["args"]]) in SERVICES["worker"]["command"][-1]
    assert (WORKER["config"]["workPool"], WORKER["config"]["type"]) == (POOL, "process")
    mounted = {mount["mountPath"] for mount in WORKER["extraVolumeMounts"]}
    assert mounted == {SHARED["MCVRP_CACHE"], "/dev/shm"}  # noqa: S108
    assert names(WORKER["extraVolumes"]) == names(WORKER["extraVolumeMounts"])


def test_the_job_checks_the_store_and_registers_the_deployments() -> None:
    """With the commands of the compose file and an existing preset."""
    (store,), (register,) = JOB["initContainers"], JOB["containers"]
    check = SERVICES["bucket"]["command"]
    assert store["command"] == [*check[:-1], "$(MCVRP_STORE)"]
    assert SHARED["MCVRP_STORE"] == check[-1]
    assert " ".join(register["command"]) in SERVICES["worker"]["command"][-1]
    assert register["args"][0] == "--preset"
    assert register["args"][1] in preset_names()
    for part in (store, register):
        importlib.import_module(part["command"][2])


def test_no_secret_is_written_down() -> None:
    """Each is a key of the Secret that the page makes, and the page makes no others."""
    used = {"auth_token"}  # KubeRay's own, by authOptions.secretName
    for mapping in everything(list(FILES.values())):
        name = str(mapping.get("name", ""))
        if re.search("PASSWORD|SECRET|TOKEN|ACCESS_KEY|AUTH_STRING", name):
            assert mapping.keys() == {"name", "valueFrom"}, name
        if "secretKeyRef" in mapping:
            assert mapping["secretKeyRef"]["name"] == "mcvrp"
            used.add(mapping["secretKeyRef"]["key"])
    for auth in (SERVER["server"]["basicAuth"], WORKER["selfHostedServerApiConfig"]["basicAuth"]):
        assert auth == {"enabled": True, "existingSecret": "mcvrp"}
        used.add("auth-string")
    assert SERVER["secret"] == {"create": False, "name": "mcvrp"}
    used.add("connection-string")
    (made,) = re.findall(r"cat > secrets <<END\n(.*?)\n    END", PAGE, re.DOTALL)
    assert {line.strip().partition("=")[0] for line in made.splitlines()} == used
    assert not re.search("PASSWORD|SECRET|TOKEN|ACCESS_KEY|AUTH_STRING", " ".join(SHARED))


def test_a_pod_has_no_privileges() -> None:
    """It is the user of the images, who is not root, and has no capabilities."""
    user, group = map(int, SERVICES["worker"]["user"].split(":"))
    none = {"drop": ["ALL"]}
    for pod in [JOB, *(node["template"]["spec"] for node in NODES.values())]:
        who = pod["securityContext"]
        assert (who["runAsUser"], who["runAsGroup"], who["runAsNonRoot"]) == (user, group, True)
        assert pod["automountServiceAccountToken"] is False
        for part in [*pod.get("initContainers", ()), *pod["containers"]]:
            assert part["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": none}
    for values in (SERVER["server"], WORKER):  # the rest is the charts' own
        assert values["podSecurityContext"] == {"runAsUser": user, "fsGroup": group}
        assert values["containerSecurityContext"] == {"runAsUser": user, "capabilities": none}


def test_the_first_process_of_a_pod_reaps() -> None:
    """As `init: true` has it in the compose file: the images bring the program."""
    dockerfile = (ROOT / "docker" / "Dockerfile").read_text()
    for values in (SERVER["server"], WORKER):
        assert values["command"][:2] == ["tini", "--"]
    assert re.search(r"^FROM \$\{BASE\} AS base\n(#.*\n)*RUN .*\binstall\b.* tini ", dockerfile, re.MULTILINE)


def test_the_page_knows_when_nights_are() -> None:
    """The cron of prefect.yaml."""
    entries = yaml.safe_load(prefect_yaml().read_text())["deployments"]
    (night,) = (entry for entry in entries if entry["name"] == "nightly")
    (schedule,) = night["schedules"]
    assert f"`{schedule['cron']}` in {schedule['timezone']}" in PAGE
    assert schedule["active"] is False
    assert "prefect deployment schedule resume nightly/nightly ID" in PAGE


def test_the_page_s_line_puts_a_registry_before_each_image(tmp_path: Path) -> None:
    """In every file that names one."""
    (line,) = re.findall(r"^ {4}(sed -i .*)$", PAGE, re.MULTILINE)
    for path in FOLDER.glob("*.yaml"):
        shutil.copy(path, tmp_path)
    subprocess.run(["sh", "-c", line], cwd=tmp_path, check=True)
    found = []
    for path in tmp_path.glob("*.yaml"):
        for mapping in everything(yaml.safe_load(path.read_text())):
            found += [mapping[key] for key in ("image", "repository") if isinstance(mapping.get(key), str)]
    assert len(found) == 7
    assert all(image.startswith("registry.example/mcvrp") for image in found)
