"""Tests of the Prefect server of a command: the configured one, one of its own, or none."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from socketserver import StreamRequestHandler, TCPServer

import prefect
import pytest
from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, PREFECT_HOME, temporary_settings

from mcvrp.flows.server import server
from mcvrp.flows.server.server import NoServer, configured_server, own_server, prefect_server
from mcvrp.flows.server.stage import stage, task
from mcvrp.model.errors import IncompleteError, McvrpError
from mcvrp.tasks.support.processes import free_port

HERE = prefect.__version__


@task("step", "step {k}")
def step(k: int) -> int:
    return k + 1


@stage("counts", "counts", timeout=60)
def counts(k: int) -> int:
    return step(k)


@contextmanager
def answering(version: str, status: int) -> Iterator[None]:
    """Configure a server of ``version`` that answers ``status`` to all requests but for its health."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.path.endswith(("/health", "/version"))
            body = json.dumps(version if known else {"detail": "no"}).encode()
            self.send_response(200 if (known and status != 401) or self.path.endswith("/health") else status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answers) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{http.server_port}/api"
        with temporary_settings({PREFECT_API_URL: url, PREFECT_CLIENT_MAX_RETRIES: 0}):
            yield
        http.shutdown()


def test_a_server_that_asks_for_a_password_is_refused() -> None:
    with answering(HERE, 401), pytest.raises(McvrpError, match="asks for a password: set "):
        configured_server()


def test_a_server_that_answers_is_used() -> None:
    with answering(HERE, 200):
        assert configured_server() == str(PREFECT_API_URL.value())


def test_a_server_that_is_gone_ends_the_stage_in_one_sentence() -> None:
    with answering("3.8.8", 200):
        url = str(PREFECT_API_URL.value())
    with (
        temporary_settings({PREFECT_API_URL: url, PREFECT_CLIENT_MAX_RETRIES: 0}),
        pytest.raises(IncompleteError, match=r"no longer answers .*: what is finished is kept"),
    ):
        counts(1)


@pytest.mark.parametrize("configured", [True, False])
def test_without_a_server_the_stage_runs_unrecorded(
    configured: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server, "ANSWER_SECONDS", 0.0)
    caplog.set_level("INFO", logger="mcvrp")
    url = f"http://127.0.0.1:{free_port()}/api"
    with (
        temporary_settings({PREFECT_API_URL: url} if configured else {}),
        prefect_server(wanted=configured),
    ):
        assert PREFECT_API_URL.value() is None
        assert counts(1) == 2
    reason = f"no server answers at {url}: start it, or unset" if configured else "--no-prefect"
    assert [line.partition(reason)[0] for line in caplog.messages] == ["Prefect has no record of this run ("]


def test_a_port_of_a_program_without_http_is_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "ANSWER_SECONDS", 0.0)

    class Frames(StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(
                bytes.fromhex("00 00 18 04 00 00 00 00 00 00")
            )  # HTTP/2's first, as gRPC sends it

    with TCPServer(("127.0.0.1", 0), Frames) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{other.server_address[1]}/api"
        with temporary_settings({PREFECT_API_URL: url}), pytest.raises(NoServer, match="no server answers"):
            configured_server()
        other.shutdown()


def test_an_unrecorded_stage_checks_its_parameters_too() -> None:
    with pytest.raises(McvrpError, match=r"k: .*, not 'x'"):
        counts("x")  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_server_that_does_not_start_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "prefect.db").write_bytes(b"no database" * 1000)
    url = f"sqlite+aiosqlite:///{tmp_path}/prefect.db"
    monkeypatch.setenv("PREFECT_SERVER_DATABASE_CONNECTION_URL", url)
    failed = pytest.raises(NoServer, match=r"failed \(exit code \d+\)")
    with temporary_settings({PREFECT_HOME: tmp_path}), failed, own_server(free_port()):
        pass


@pytest.mark.slow
def test_only_its_owner_can_read_the_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    before = os.umask(0o022)
    try:
        with own_server(free_port()) as process:
            assert process.poll() is None
    finally:
        os.umask(before)
    assert process.poll() is not None
    assert (tmp_path / "prefect.db").stat().st_mode & 0o777 == 0o600
