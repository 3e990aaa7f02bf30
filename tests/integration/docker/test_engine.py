"""Tests of the full stack on a container engine: it is built, started and used, and survives faults.

`make test-stack` runs them; other targets skip them. The images are built from the environment's BASE and
BUILD_BASE (docker/bases makes some); the stack has a project and an address of its own.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from mcvrp.storage import layout
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.store.lease import active_owner
from mcvrp.storage.store.store import Store
from tests.support.shared import until

ROOT = Path(__file__).parents[3]
SECRETS = re.search(r"^SECRETS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()  # type: ignore[index]
PROJECT, HOST = "mcvrp-test", "127.0.0.2"
CHOSEN = "/store/chosen"  # MCVRP_STORE of docker/.env
_UP_SECONDS, _RUN_SECONDS = 900, 1800

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(7200),
    pytest.mark.skipif("MCVRP_TEST_STACK" not in os.environ, reason="`make test-stack` runs it"),
]


@dataclass(frozen=True)
class Stack:
    """The stack of the compose file, with a docker/.env of its own."""

    file: Path
    secrets: dict[str, str]

    def start(self, *arguments: str, output: Path) -> subprocess.Popen[bytes]:
        files = ["--env-file", str(self.file), "-f", str(ROOT / "docker" / "compose.yaml")]
        environment = os.environ | {"MCVRP_HOST": HOST, "MCVRP_ENV_FILE": str(self.file)}
        with output.open("wb") as log:
            command = ["docker", "compose", "-p", PROJECT, *files, *arguments]
            return subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)

    def compose(self, *arguments: str, seconds: float = _UP_SECONDS) -> str:
        output = self.file.with_name("output")
        code = self.start(*arguments, output=output).wait(seconds)
        assert code == 0, f"{' '.join(arguments)}: {output.read_text()[-4000:]}"
        return output.read_text()

    def up(self) -> None:
        try:
            self.compose("up", "--detach", "--wait", "--wait-timeout", str(_UP_SECONDS))
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.compose('logs', '--tail', '40')[-9000:]}") from None

    def start_smoke(self, store: str, log: Path) -> subprocess.Popen[bytes]:
        command = ("run", "--rm", "-T", "mcvrp", "run", "--preset", "smoke", "--store", f"/store/{store}")
        return self.start(*command, output=log)

    def exists(self, pattern: str) -> bool:
        list_it = ("exec", "-T", "serve", "sh", "-c", f"ls -d {pattern}")
        return self.start(*list_it, output=Path(os.devnull)).wait(_UP_SECONDS) == 0

    def outcome(self, name: str, folder: Path) -> dict[str, object]:
        """Return the results that faults must not change; check that nothing is left over."""
        shutil.rmtree(folder / name, ignore_errors=True)
        self.compose("cp", f"serve:/store/{name}", str(folder))
        store = Store.open(str(folder / name), writable=False)
        assert store.exists("benchmarks/smoke/report.html")
        results: dict[str, object] = {}
        for dataset in ("smoke", "smoke-held-out"):
            results[dataset] = Dataset.open(store, dataset).fingerprint()
            assert active_owner(store, layout.driver_lease(dataset)) is None
        weights = [path for path in store.list("models") if path.endswith(".safetensors")]
        assert len(weights) == 1, weights
        return results | {"weights": store.get(weights[0])}

    def ask(self, path: str, document: Any = None) -> Any:
        url, login = f"http://{HOST}:4200/api/{path}", ("mcvrp", self.secrets["PREFECT_PASSWORD"])
        method = "GET" if document is None else "POST"
        answer = httpx.request(method, url, json=document, auth=login, timeout=60, trust_env=False)
        return answer.raise_for_status().json()


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The built and healthy stack, removed with its volumes at the end."""
    stack = Stack(tmp_path_factory.mktemp("stack") / "env", {name: secrets.token_hex(24) for name in SECRETS})
    lines = [f"{name}={value}\n" for name, value in (stack.secrets | {"MCVRP_STORE": CHOSEN}).items()]
    stack.file.write_text("".join(lines))
    stack.compose("build", seconds=3600)
    try:
        stack.up()
        yield stack
    finally:
        stack.compose("--profile", "command", "down", "--volumes", "--timeout", "5")


@pytest.fixture(scope="module")
def undisturbed(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    folder = tmp_path_factory.mktemp("undisturbed")
    assert stack.start_smoke("calm", folder / "log").wait(_RUN_SECONDS) == 0, (folder / "log").read_text()
    return stack.outcome("calm", folder)


def test_prefect_serves_its_page_and_requires_its_password(stack: Stack) -> None:
    assert "<html" in httpx.get(f"http://{HOST}:4200/", timeout=60, trust_env=False).text
    count = f"http://{HOST}:4200/api/flow_runs/count"
    for login in (None, ("mcvrp", "wrong")):
        assert httpx.post(count, json={}, auth=login, timeout=60, trust_env=False).status_code == 401
    logs = stack.compose("logs")
    assert not [name for name, value in stack.secrets.items() if value in logs]


def test_a_deployment_runs_on_the_chosen_store(stack: Stack) -> None:
    deployment = stack.ask("deployments/name/city/city")["id"]
    run = stack.ask(f"deployments/{deployment}/create_flow_run", {})["id"]
    ends = ("COMPLETED", "FAILED", "CRASHED")
    until("its end", _RUN_SECONDS, lambda: stack.ask(f"flow_runs/{run}")["state"]["type"] in ends)
    assert stack.ask(f"flow_runs/{run}")["state"]["type"] == "COMPLETED"
    assert stack.exists(f"{CHOSEN}/cities/*")


def test_a_killed_worker_does_not_change_the_results(
    stack: Stack, undisturbed: dict[str, object], tmp_path: Path
) -> None:
    run = stack.start_smoke("killed", tmp_path / "log")
    until("labels", _RUN_SECONDS, lambda: run.poll() is not None or stack.exists("/store/killed/labels/*"), 1)
    assert run.poll() is None, (tmp_path / "log").read_text()
    stack.compose("kill", "ray-worker")
    stack.up()
    assert run.wait(_RUN_SECONDS) == 0, (tmp_path / "log").read_text()
    assert "Traceback" not in (tmp_path / "log").read_text()
    assert stack.outcome("killed", tmp_path) == undisturbed


def test_records_and_store_survive_a_restart(
    stack: Stack, undisturbed: dict[str, object], tmp_path: Path
) -> None:
    before = {run["id"] for run in stack.ask("flow_runs/filter", {})}
    stack.compose("down", "--timeout", "10")
    stack.up()
    assert before
    assert before <= {run["id"] for run in stack.ask("flow_runs/filter", {})}
    assert stack.outcome("calm", tmp_path) == undisturbed
