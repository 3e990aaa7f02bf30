"""Values for the charts of KubeRay and Prefect: the images, the Ray and the commands that exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from mcvrp.flows.cli.main import parse

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docker" / "kubernetes"
VALUES = {path.name: yaml.safe_load(path.read_text()) for path in FOLDER.iterdir()}


def mappings(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for below in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from mappings(below)


def test_the_page_names_each_file_and_says_that_none_was_run() -> None:
    page = (ROOT / "docs" / "kubernetes.md").read_text()
    assert set(re.findall(r"\| `docker/kubernetes/([\w-]+\.yaml)` \|", page)) == set(VALUES)
    assert "has not been run on a cluster" in page


def test_images_and_ray_are_those_of_the_stack_in_containers() -> None:
    services = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text())["services"].values()
    named = [m for m in mappings(list(VALUES.values())) if "repository" in m]
    images = {f"{each['repository']}:{each.get('tag') or each['prefectTag']}" for each in named}
    assert images == {"mcvrp:0.1.0", "mcvrp-gpu:0.1.0"} <= {service["image"] for service in services}
    ray = VALUES["ray-cluster.yaml"]["head"]["rayVersion"]
    assert f"\nray=={ray}\n" in (ROOT / "constraints.txt").read_text()


def test_the_pod_that_serves_runs_a_command_that_exists() -> None:
    worker = VALUES["prefect-worker.yaml"]["worker"]
    assert worker["command"] == ["tini", "--", "mcvrp-node", "mcvrp"]  # tini reaps processes
    parse(worker["args"])


def test_no_secret_is_written_down() -> None:
    for mapping in mappings(list(VALUES.values())):
        if re.search("PASSWORD|SECRET|TOKEN|ACCESS_KEY|AUTH_STRING", str(mapping.get("name"))):
            assert mapping.keys() == {"name", "valueFrom"}
