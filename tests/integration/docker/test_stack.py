"""Tests of the stack's services as processes of this machine, started by the commands of the compose file.

Host names become the loopback address, ports free ones, and Prefect uses SQLite.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import secrets
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ray.util import get_node_ip_address

from mcvrp.tasks.support.processes import free_port, start_group, stop_group

ROOT = Path(__file__).parents[3]
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text())[
    "services"
]
PASSWORD, TOKEN = secrets.token_hex(24), secrets.token_hex(24)
VALUES = {"PREFECT_PASSWORD": PASSWORD, "RAY_AUTH_TOKEN": TOKEN}
_SECONDS = 600.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]


class Stack:
    """Services as processes, with the environment of their containers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.prefect, self.ray, self.dashboard, self.health = (free_port() for _ in range(4))
        self.agents = {"ray-head": free_port(), "ray-worker": free_port()}
        self.head = f"{get_node_ip_address()}:{self.ray}"  # Ray does not listen on the loopback address
        self.running: list[subprocess.Popen[str]] = []

    def environment(self, name: str, **more: str) -> dict[str, str]:
        """Return the environment of the service ``name``, adapted to this machine."""
        service = {
            key: self.local(str(value)) for key, value in SERVICES[name].get("environment", {}).items()
        }
        inherited = {
            k: v for k, v in os.environ.items() if not k.startswith(("PREFECT_", "RAY_", "AWS_", "MCVRP_"))
        }
        ours = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PREFECT_HOME": str(self.folder / "prefect"),
            "RAY_USAGE_STATS_ENABLED": "0",
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        }
        service.pop("PREFECT_API_DATABASE_CONNECTION_URL", None)
        return inherited | ours | service | more

    def local(self, text: str) -> str:
        """Return a value of the compose file with the secrets and addresses of this machine."""
        text = re.sub(r"\$\{(\w+)[^}]*\}", lambda match: VALUES.get(match[1], "none"), text)
        text = text.replace("prefect:4200", f"127.0.0.1:{self.prefect}")
        text = text.replace("/home/mcvrp/", f"{self.folder}/")
        return text.replace("ray-head:6379", self.head)

    def start(self, name: str, *more: str, **environment: str) -> None:
        """Start the service by its command, with additional arguments for this machine."""
        command = [self.local(part) for part in SERVICES[name]["command"]]
        with (self.folder / f"{name}.log").open("w") as log:
            process = start_group(
                [*command, *more],
                env=self.environment(name, **environment),
                cwd=ROOT,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.running.append(process)

    def is_healthy(self, name: str) -> bool:
        """Run the health check of the service."""
        kind, *command = SERVICES[name]["healthcheck"]["test"]
        assert kind == "CMD"
        ports = {
            "4200": self.prefect,
            "8080": self.health,
            "8265": self.dashboard,
            "52365": self.agents.get(name),
        }
        command = [
            re.sub(r"(?<=127\.0\.0\.1:)\d+", lambda port: str(ports[port[0]]), part) for part in command
        ]
        done = subprocess.run(
            command,
            env=self.environment(name, RAY_ADDRESS=self.head),
            capture_output=True,
            timeout=60,
        )
        return done.returncode == 0

    def wait(self, ready: Callable[[], bool], name: str) -> None:
        """Wait until a service is ``ready``; errors have its log."""
        deadline = time.monotonic() + _SECONDS
        while not ready():
            log = (self.folder / f"{name}.log").read_text()[-2000:]
            assert self.running[-1].poll() is None, log
            assert time.monotonic() < deadline, log
            time.sleep(1.0)

    def ask(self, path: str, password: str | None) -> Any:
        """Return the response of Prefect's API, or the status of an error."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.prefect}/api/{path}", b"{}", {"Content-Type": "application/json"}
        )
        if password is not None:
            login = base64.b64encode(f"mcvrp:{password}".encode()).decode()
            request.add_header("Authorization", f"Basic {login}")
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code


@pytest.fixture
def stack(scratch: Path) -> Iterator[Stack]:
    services = Stack(scratch)
    yield services
    for process in reversed(services.running):
        stop_group(process)


def test_prefect_requires_its_password_which_the_worker_has(stack: Stack) -> None:
    """Server and worker become healthy and register the deployments; other clients get status 401."""
    stack.start("prefect", "--port", str(stack.prefect))
    stack.wait(lambda: stack.is_healthy("prefect"), "prefect")
    for password in (None, "", "wrong", PASSWORD[:-1]):
        assert stack.ask("deployments/filter", password) == 401
    assert stack.ask("deployments/filter", PASSWORD) == []
    ports = {"PREFECT_WORKER_WEBSERVER_HOST": "127.0.0.1", "PREFECT_WORKER_WEBSERVER_PORT": str(stack.health)}
    stack.start("worker", **ports)
    stack.wait(lambda: stack.is_healthy("worker"), "worker")
    declared = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]
    assert len(stack.ask("deployments/filter", PASSWORD)) == len(declared)

    def workers() -> list[str]:
        return [worker["status"] for worker in stack.ask("work_pools/mcvrp/workers/filter", PASSWORD)]

    stack.wait(lambda: workers() == ["ONLINE"], "worker")
    for log in stack.folder.glob("*.log"):
        assert PASSWORD not in log.read_text()


def nodes(stack: Stack, token: str) -> int:
    """Return the number of nodes for a client with ``token``; 0 if it is rejected."""
    program = f"import ray; ray.init('{stack.head}', log_to_driver=False); print(len(ray.nodes()))"
    environment = stack.environment("mcvrp", RAY_AUTH_TOKEN=token)
    with contextlib.suppress(subprocess.TimeoutExpired):
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120
        )
        return int(done.stdout.split()[-1]) if done.returncode == 0 else 0
    return 0


def test_rays_nodes_form_a_cluster_by_their_token(stack: Stack) -> None:
    """Head and worker become healthy and form one cluster, which rejects clients with another token."""
    alone = ["--num-cpus=1", "--object-store-memory=100000000"]
    head = [
        *alone,
        f"--port={stack.ray}",
        f"--dashboard-port={stack.dashboard}",
        f"--dashboard-agent-listen-port={stack.agents['ray-head']}",
        f"--temp-dir={stack.folder}/r",
    ]
    stack.start("ray-head", *head)
    stack.wait(lambda: stack.is_healthy("ray-head"), "ray-head")
    agent = f"--dashboard-agent-listen-port={stack.agents['ray-worker']}"
    stack.start("ray-worker", *alone, agent)
    stack.wait(lambda: nodes(stack, TOKEN) == 2, "ray-worker")
    stack.wait(lambda: stack.is_healthy("ray-worker"), "ray-worker")
    assert nodes(stack, "0" * 48) == 0
