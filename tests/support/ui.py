"""`mcvrp ui` as a user runs it, and its Prefect server by its API."""

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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from mcvrp.flows.config.stages import STAGES
from mcvrp.tasks.support.processes import free_port
from tests.support.command import Workplace
from tests.support.shared import DIRECT, until

_START_SECONDS = 200.0
_TRIES = 10


@dataclass
class Ui:
    process: subprocess.Popen[str]
    page: str
    errors: Path

    @property
    def password(self) -> str:
        """The password that it has printed, once it serves; "" before."""
        printed = re.search(rf"^Prefect: {self.page}/ password (\S+)", self.errors.read_text(), re.MULTILINE)
        return printed[1] if printed else ""

    def api(self, path: str, body: object | None = None, method: str | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        login = base64.b64encode(self.password.encode()).decode()
        header = {"Content-Type": "application/json", "Authorization": f"Basic {login}"}
        request = urllib.request.Request(f"{self.page}/api{path}", data, header, method=method)
        for _ in range(_TRIES):
            # On a busy machine SQLite is busy or nobody answers: Prefect's own clients try again, too.
            try:
                with DIRECT.open(request, timeout=60) as response:
                    text = response.read()
                return json.loads(text) if text else None
            except urllib.error.HTTPError as error:
                message = f"{path}: {error.code} {error.read().decode()}"
                if error.code != 503:
                    break
            except TimeoutError:
                message = f"{path}: no answer"
                if body is not None and "filter" not in path:  # it may have been done
                    break
            time.sleep(1.0)
        raise AssertionError(message)

    def deployment(self, name: str) -> dict[str, Any]:
        return dict(self.api(f"/deployments/name/{name}/{name}"))

    def start(self, name: str, **changes: Any) -> str:
        """Start a run with the form's first values and ``changes``; return its id."""
        deployment = self.deployment(name)
        body = {"parameters": deployment["parameters"] | changes, "state": {"type": "SCHEDULED"}}
        return str(self.api(f"/deployments/{deployment['id']}/create_flow_run", body)["id"])

    def run(self, run: str) -> dict[str, Any]:
        return dict(self.api(f"/flow_runs/{run}"))

    def cancel(self, run: str) -> None:
        self.api(f"/flow_runs/{run}/set_state", {"state": {"type": "CANCELLING", "name": "Cancelling"}})

    def ended(self, run: str, seconds: float = 180.0) -> dict[str, Any]:
        final = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")

        def look() -> dict[str, Any] | None:
            state = self.run(run)
            return state if state["state_type"] in final else None

        return until(f"the end of run {run}", seconds, look)

    def logs(self, run: str) -> list[str]:
        """Return the messages of an ended run, its process too: the last ones are sent after its state."""
        mark = ("PREFECT__FLOW_RUN_ID", run)

        def gone() -> bool:
            try:
                children = psutil.Process(self.process.pid).children(recursive=True)
                return not any(mark in child.environ().items() for child in children)
            except psutil.Error:  # one has ended meanwhile
                return False

        until(f"the end of the process of run {run}", 60, gone)
        of_run = {"logs": {"flow_run_id": {"any_": [run]}}}
        return [line["message"] for line in self.api("/logs/filter", of_run)]

    def reaches(self, run: str, state: str, seconds: float = 120.0) -> None:
        until(f"{state} of {run}", seconds, lambda: self.run(run)["state_name"] == state)

    def stop(self, number: int = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=60)


@contextmanager
def mcvrp_ui(
    place: Workplace, *arguments: str, port: int | None = None, background: bool = False, **changes: str
) -> Iterator[Ui]:
    """Run `mcvrp ui` with the smoke preset in ``place`` until the context ends; wait until it serves.

    In the ``background`` it is started with Ctrl-C ignored, as by `&` in a script.
    """
    port = port or free_port()
    errors = place.folder / f"ui-{port}.err"
    options = ("--preset", "smoke", "--port", str(port), *arguments)
    with errors.open("w") as log:
        process = subprocess.Popen(
            [str(Path(sys.executable).with_name("mcvrp")), "ui", *options],
            cwd=place.folder,
            env=place.environment(**changes),
            stdout=subprocess.DEVNULL,
            stderr=log,
            text=True,
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_IGN) if background else None,
        )
    ui = Ui(process, f"http://127.0.0.1:{port}", errors)

    def serves() -> bool:
        assert process.poll() is None, errors.read_text()
        return bool(ui.password) and len(ui.api("/deployments/filter", {})) == len(STAGES)

    try:
        until("the page", _START_SECONDS, serves)
        yield ui
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
