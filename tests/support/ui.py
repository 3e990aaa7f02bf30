"""`mcvrp ui` as a user runs it, and what its Prefect server has to say."""

from __future__ import annotations

import base64
import json
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from mcvrp.tasks.support.processes import free_port
from tests.support.command import Workplace

T = TypeVar("T")
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # loopback is behind no proxy
_START_SECONDS = 200.0
_TRIES = 10


def until(what: str, seconds: float, look: Callable[[], T | None]) -> T:
    """Return what ``look`` finds as soon as it is something."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := look():
            return found
        time.sleep(0.5)
    raise AssertionError(f"not within {seconds:g} s: {what}")


@dataclass
class Ui:
    """A running `mcvrp ui`."""

    process: subprocess.Popen[str]
    page: str
    errors: Path

    @property
    def link(self) -> str:
        """The address that it has printed, once it serves; "" before."""
        found = re.search(rf"^Prefect: ({self.page}/enter#\S+)", self.errors.read_text(), re.MULTILINE)
        return found[1] if found else ""

    @property
    def password(self) -> str:
        """User and password, as Prefect's settings have them."""
        return self.link.partition("#")[2]

    def api(self, path: str, body: object | None = None, method: str | None = None) -> Any:
        """Return what the API answers: with a ``body`` it is POST, else GET, unless told."""
        data = None if body is None else json.dumps(body).encode()
        login = base64.b64encode(self.password.encode()).decode()
        header = {"Content-Type": "application/json", "Authorization": f"Basic {login}"}
        request = urllib.request.Request(f"{self.page}/api{path}", data, header, method=method)
        for _ in range(_TRIES):
            try:
                with _DIRECT.open(request, timeout=60) as response:
                    text = response.read()
                return json.loads(text) if text else None
            except urllib.error.HTTPError as error:
                said = f"{path}: {error.code} {error.read().decode()}"
                if error.code != 503:  # SQLite was busy: Prefect's own clients try again, too
                    break
            time.sleep(1.0)
        raise AssertionError(said)

    def deployment(self, name: str) -> dict[str, Any]:
        """Return the deployment ``name`` of the flow of that name."""
        found: dict[str, Any] = self.api(f"/deployments/name/{name}/{name}")
        return found

    def start(self, name: str, **changes: Any) -> str:
        """Start a run with the form's first values and ``changes``; return its id."""
        there = self.deployment(name)
        body = {"parameters": there["parameters"] | changes, "state": {"type": "SCHEDULED"}}
        return str(self.api(f"/deployments/{there['id']}/create_flow_run", body)["id"])

    def run(self, run: str) -> dict[str, Any]:
        """Return the flow run with the id ``run``."""
        found: dict[str, Any] = self.api(f"/flow_runs/{run}")
        return found

    def cancel(self, run: str) -> None:
        """Do what the button of the UI does."""
        self.api(f"/flow_runs/{run}/set_state", {"state": {"type": "CANCELLING", "name": "Cancelling"}})

    def ended(self, run: str, seconds: float = 180.0) -> dict[str, Any]:
        """Return the flow run as soon as it has ended."""
        final = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")

        def look() -> dict[str, Any] | None:
            found = self.run(run)
            return found if found["state_type"] in final else None

        return until(f"the end of run {run}", seconds, look)

    def reaches(self, run: str, state: str, seconds: float = 120.0) -> None:
        """Wait until the flow run is in the state that the UI calls ``state``."""
        until(f"{state} of {run}", seconds, lambda: self.run(run)["state_name"] == state)

    def stop(self, number: int = signal.SIGINT) -> int:
        """Send the signal ``number`` and return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(timeout=60)


@contextmanager
def mcvrp_ui(place: Workplace, *arguments: str, port: int | None = None, **changes: str) -> Iterator[Ui]:
    """Run `mcvrp ui` with the smoke preset in ``place`` until the context ends; wait until it serves."""
    port = port or free_port()
    errors = place.folder / f"ui-{port}.err"
    options = ("--preset", "smoke", "--port", str(port), *arguments)
    with errors.open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "mcvrp.flows.cli.main", "ui", *options],
            cwd=place.folder,
            env=place.environment(**changes),
            stdout=subprocess.DEVNULL,
            stderr=log,
            text=True,
        )
    ui = Ui(process, f"http://127.0.0.1:{port}", errors)
    try:

        def serves() -> bool:
            assert process.poll() is None, errors.read_text()
            return bool(ui.link)

        until("the page", _START_SECONDS, serves)
        yield ui
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
