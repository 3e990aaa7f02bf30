"""Tests of the full stack on a container engine: it is built, started and used, and survives faults.

`make test-stack` runs one fault, `make test-stack-full` all of them; other targets skip this. The images are
built from the environment's BASE and BUILD_BASE (docker/bases makes some); the stack has a project and an
address of its own.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from mcvrp.flows.config.preset import load_preset
from mcvrp.flows.server.deployments import first_values
from mcvrp.storage import layout
from mcvrp.storage.cities import load_city
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.store.lease import active_owner
from mcvrp.storage.store.store import Store, StoreError
from tests.support.labels import drive
from tests.support.shared import unavailable, until

ROOT = Path(__file__).parents[3]
SECRETS = re.search(r"^SECRETS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()  # type: ignore[index]
PROJECT, HOST = "mcvrp-test", "127.0.0.2"
MODE = os.environ.get("MCVRP_TEST_STACK", "")  # "one" or "all"
SERVICES = ["ray-worker", "ray-head", "s3", "prefect", "postgres", "serve"]
FAULTS = [*(f"{service} killed" for service in SERVICES), "ray-worker cut off", "s3 cut off"]
FAULTS += ["ray-worker paused", "s3 paused"]
_FAULT_SECONDS = 45.0  # that a service is cut off or paused
_UP_SECONDS, _RUN_SECONDS = 900, 1800
_ATTEMPTS = 3  # of the same command, which some faults end

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(7200),
    pytest.mark.skipif(not MODE, reason="`make test-stack` runs it"),
]


@dataclass(frozen=True)
class Stack:
    """The stack of the compose file, with secrets of its own."""

    secrets_file: Path
    values: dict[str, str]

    def command(self, *arguments: str) -> list[str]:
        files = ["--env-file", str(self.secrets_file), "-f", str(ROOT / "docker" / "compose.yaml")]
        return ["docker", "compose", "-p", PROJECT, *files, *arguments]

    def choose_secrets(self) -> None:
        self.values.update({name: secrets.token_hex(24) for name in SECRETS})
        self.secrets_file.write_text("".join(f"{name}={value}\n" for name, value in self.values.items()))

    def compose(self, *arguments: str, seconds: float = _UP_SECONDS) -> str:
        command, env = self.command(*arguments), os.environ | {"MCVRP_HOST": HOST}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=seconds)
        assert done.returncode == 0, f"{' '.join(arguments)}: {done.stdout[-1000:]}{done.stderr[-3000:]}"
        return done.stdout

    def up(self) -> None:
        try:
            self.compose("up", "--detach", "--wait", "--wait-timeout", str(_UP_SECONDS))
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.compose('logs', '--tail', '40')[-9000:]}") from None

    def cut_off(self, service: str) -> None:
        """Disconnect the service from the network for a while."""
        container, network = self.compose("ps", "--quiet", service).strip(), f"{PROJECT}_default"
        subprocess.run(["docker", "network", "disconnect", network, container], check=True)
        time.sleep(_FAULT_SECONDS)
        subprocess.run(["docker", "network", "connect", "--alias", service, network, container], check=True)

    def pause(self, service: str) -> None:
        container = self.compose("ps", "--quiet", service).strip()
        top = subprocess.check_output(["docker", "top", container, "-o", "pid"], text=True)
        for number, seconds in ((signal.SIGSTOP, _FAULT_SECONDS), (signal.SIGCONT, 0.0)):
            for pid in map(int, top.split()[1:]):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            time.sleep(seconds)

    def start_smoke(self, store: str, log: Path) -> subprocess.Popen[bytes]:
        command = self.command("run", "--rm", "-T", "mcvrp", "run", "--preset", "smoke", "--store", store)
        with log.open("wb") as output:
            environment = os.environ | {"MCVRP_HOST": HOST}
            return subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)

    def ask(self, path: str, document: Any = None) -> Any:
        url, login = f"http://{HOST}:4200/api/{path}", ("mcvrp", self.values["PREFECT_PASSWORD"])
        method = "GET" if document is None else "POST"
        answer = httpx.request(method, url, json=document, auth=login, timeout=60, trust_env=False)
        return answer.raise_for_status().json()

    def ended(self, state: Callable[[], dict[str, Any] | None]) -> None:
        """Wait until the run whose state is returned by ``state`` is completed."""
        ends = ("COMPLETED", "FAILED", "CRASHED")
        until("its end", _RUN_SECONDS, lambda: (found := state()) and found["type"] in ends)
        assert (state() or {})["type"] == "COMPLETED", state()


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The built and healthy stack, removed with its volumes at the end."""
    probes = ["docker", "compose", "version"], ["docker", "info"]
    if not shutil.which("docker") or any(
        subprocess.run(probe, capture_output=True).returncode for probe in probes
    ):
        unavailable("no container engine: start dockerd, and install docker compose 2")
    file = tmp_path_factory.mktemp("stack") / "env"
    stack = Stack(file, {})
    stack.choose_secrets()
    stack.compose("build", seconds=3600)
    try:
        stack.up()
        yield stack
    finally:
        stack.compose("--profile", "command", "down", "--volumes", "--timeout", "5")


in_full = pytest.mark.skipif(MODE != "all", reason="`make test-stack-full` runs it")


def first_values_of(name: str) -> dict[str, Any]:
    return first_values(name, load_preset("smoke"))


@pytest.fixture(scope="module")
def environment(stack: Stack) -> Iterator[None]:
    """Variables for access to the store from this machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{HOST}:8333")
        patch.setenv("AWS_REGION", "us-east-1")
        patch.setenv("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")
        set_keys(patch, stack)
        yield


def set_keys(patch: pytest.MonkeyPatch, stack: Stack) -> None:
    patch.setenv("AWS_ACCESS_KEY_ID", stack.values["S3_ACCESS_KEY"])
    patch.setenv("AWS_SECRET_ACCESS_KEY", stack.values["S3_SECRET_KEY"])


def outcome(uri: str) -> dict[str, object]:
    """Return the results that faults must not change: labels and weights; check that nothing is left over."""
    store = Store.open(uri, writable=False)
    assert store.exists("benchmarks/smoke/report.html")
    results: dict[str, object] = {}
    for name in ("smoke", "smoke-held-out"):
        results[name] = Dataset.open(store, name).fingerprint()
        assert active_owner(store, layout.driver_lease(name)) is None
    weights = [path for path in store.list("models") if path.endswith(".safetensors")]
    assert len(weights) == 1, weights
    return results | {"weights": store.get(weights[0])}


@pytest.fixture(scope="module")
def undisturbed(
    stack: Stack, environment: None, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, object]:
    log = tmp_path_factory.mktemp("log") / "log"
    assert stack.start_smoke("s3://mcvrp/undisturbed", log).wait(_RUN_SECONDS) == 0, log.read_text()[-2000:]
    return outcome("s3://mcvrp/undisturbed")


def test_prefect_serves_its_page_and_requires_its_password(stack: Stack) -> None:
    assert "<html" in httpx.get(f"http://{HOST}:4200/", timeout=60, trust_env=False).text
    count = f"http://{HOST}:4200/api/flow_runs/count"
    for login in (None, ("mcvrp", "wrong")):
        assert httpx.post(count, json={}, auth=login, timeout=60, trust_env=False).status_code == 401
    logs = stack.compose("logs")
    assert not [name for name, value in stack.values.items() if value in logs]


@pytest.mark.parametrize("name", ["city", pytest.param("pipeline", marks=in_full)])
def test_a_deployment_runs(stack: Stack, request: pytest.FixtureRequest, name: str) -> None:
    deployment = stack.ask(f"deployments/name/{name}/{name}")["id"]
    body = {"parameters": first_values_of(name)} if name == "pipeline" else {}
    run = stack.ask(f"deployments/{deployment}/create_flow_run", body)["id"]
    stack.ended(lambda: stack.ask(f"flow_runs/{run}")["state"])
    if name == "pipeline":
        assert outcome("s3://mcvrp/store") == request.getfixturevalue("undisturbed")


@in_full
def test_a_night_is_scheduled(stack: Stack, environment: None) -> None:
    store = Store.open("s3://mcvrp/store")
    drive(store, load_city(store, "smoke"), days=12)
    deployment = stack.ask("deployments/name/nightly/nightly")["id"]
    schedule = {"cron": "* * * * *", "timezone": "UTC"}
    entry = {"schedule": schedule, "active": True, "parameters": first_values_of("nightly")}
    stack.ask(f"deployments/{deployment}/schedules", [entry])
    wanted = {"deployments": {"id": {"any_": [deployment]}}, "sort": "EXPECTED_START_TIME_ASC"}
    stack.ended(lambda: next((run["state"] for run in stack.ask("flow_runs/filter", wanted)), None))
    assert [path for path in store.list("nights/smoke") if path.endswith("README.md")]


@pytest.mark.parametrize("fault", FAULTS if MODE == "all" else FAULTS[:1])
def test_a_fault_does_not_change_the_results(
    stack: Stack, undisturbed: dict[str, object], tmp_path: Path, fault: str
) -> None:
    service, _, what = fault.partition(" ")
    folder = fault.replace(" ", "-")
    uri = f"s3://mcvrp/{folder}"
    run = stack.start_smoke(uri, tmp_path / "0")
    store = Store.open("s3://mcvrp", writable=False)
    until("labels", _RUN_SECONDS, lambda: run.poll() is not None or store.list(f"{folder}/labels"))
    assert run.poll() is None, (tmp_path / "0").read_text()[-2000:]
    if what == "killed":
        stack.compose("kill", service)
    else:
        {"cut off": stack.cut_off, "paused": stack.pause}[what](service)
    stack.up()
    for k in range(1, _ATTEMPTS):
        if run.wait(_RUN_SECONDS) == 0:
            break
        run = stack.start_smoke(uri, tmp_path / str(k))
    code = run.wait(_RUN_SECONDS)
    logs = [path.read_text() for path in sorted(tmp_path.iterdir())]
    assert code == 0, [text[-1500:] for text in logs]
    assert "Traceback" not in "".join(logs), logs
    assert outcome(uri) == undisturbed


def test_data_survive_a_restart_with_other_secrets(
    stack: Stack, undisturbed: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = stack.ask("flow_runs/count", {})
    stack.compose("down", "--timeout", "10")
    stack.choose_secrets()
    stack.up()
    assert stack.ask("flow_runs/count", {}) >= before > 0
    with pytest.raises(StoreError):  # with the keys of before
        Store.open("s3://mcvrp/undisturbed", writable=False)
    set_keys(monkeypatch, stack)
    assert outcome("s3://mcvrp/undisturbed") == undisturbed
