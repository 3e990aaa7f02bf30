"""Services of the stack as processes of this machine, by the commands of the compose file."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from ray.util import get_node_ip_address

from mcvrp.flows.server.ui import deployed
from mcvrp.tasks.support.processes import free_port, start_group, stop_group

ROOT = Path(__file__).parents[3]
COMPOSE = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
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
        service = {k: self.local(str(v)) for k, v in SERVICES[name].get("environment", {}).items()}
        theirs = ("PREFECT_", "RAY_", "AWS_", "MCVRP_")
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(theirs)}
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
        # Without a node of its own, for which there are no containers: `make test-stack` has them.
        command = [self.local(part) for part in SERVICES[name]["command"] if part != "mcvrp-node"]
        env = self.environment(name, **environment)
        with (self.folder / f"{name}.log").open("w") as log:
            output: dict[str, Any] = {"stdout": log, "stderr": subprocess.STDOUT}
            self.running.append(start_group([*command, *more], env=env, cwd=ROOT, **output))

    def is_healthy(self, name: str) -> bool:
        kind, *command = SERVICES[name]["healthcheck"]["test"]
        assert kind == "CMD"
        ports = {"4200": self.prefect, "8080": self.health, "8265": self.dashboard}
        ports["52365"] = self.agents.get(name, 0)
        port, env = re.compile(r"(?<=127\.0\.0\.1:)\d+"), self.environment(name, RAY_ADDRESS=self.head)
        command = [port.sub(lambda match: str(ports[match[0]]), part) for part in command]
        return subprocess.run(command, env=env, capture_output=True, timeout=60).returncode == 0

    def wait(self, ready: Callable[[], bool], name: str) -> None:
        deadline = time.monotonic() + _SECONDS
        while not ready():
            log = (self.folder / f"{name}.log").read_text()[-2000:]
            assert self.running[-1].poll() is None, log
            assert time.monotonic() < deadline, log
            time.sleep(1.0)

    def ask(self, path: str, password: str | None) -> Any:
        url, login = f"http://127.0.0.1:{self.prefect}/api/{path}", password and ("mcvrp", password)
        answer = httpx.post(url, json={}, auth=login or None, timeout=30, trust_env=False)
        return answer.status_code if answer.is_error else answer.json()


@pytest.fixture
def stack(scratch: Path) -> Iterator[Stack]:
    services = Stack(scratch)
    yield services
    for process in reversed(services.running):
        stop_group(process)


def test_prefect_requires_its_password_with_which_deployments_are_served(stack: Stack) -> None:
    stack.start("prefect", "--port", str(stack.prefect))
    stack.wait(lambda: stack.is_healthy("prefect"), "prefect")
    for password in (None, "", "wrong", PASSWORD[:-1]):
        assert stack.ask("deployments/filter", password) == 401
    assert stack.ask("deployments/filter", PASSWORD) == []
    own = {"MCVRP_STORE": str(stack.folder / "store"), "MCVRP_PRESET": ""}
    own["PREFECT_RUNNER_SERVER_PORT"] = str(stack.health)
    stack.start("serve", **own)
    stack.wait(lambda: stack.is_healthy("serve"), "serve")
    assert {each["name"] for each in stack.ask("deployments/filter", PASSWORD)} == set(deployed())
    for log in stack.folder.glob("*.log"):
        assert PASSWORD not in log.read_text()


def nodes(stack: Stack, token: str) -> int:
    program = f"import ray; ray.init('{stack.head}', log_to_driver=False); print(len(ray.nodes()))"
    environment = stack.environment("mcvrp", RAY_AUTH_TOKEN=token)
    command = [sys.executable, "-c", program]
    with contextlib.suppress(subprocess.SubprocessError):
        return int(subprocess.check_output(command, env=environment, text=True, timeout=120).split()[-1])
    return 0


def test_rays_nodes_form_a_cluster_by_their_token(stack: Stack) -> None:
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
