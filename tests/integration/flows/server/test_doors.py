"""Tests of access to the server of a command: only with its password, and from no other site."""

from __future__ import annotations

import json

import pytest

from tests.support.command import Workplace

pytestmark = pytest.mark.slow

# Requests of a page in the browser of this machine, and of another user of it; then of the UI itself.
KNOCKS = """
import asyncio, json, tempfile, urllib.error, urllib.request
from websockets.asyncio.client import connect
from mcvrp.flows.config import settings
settings.prepare(verbose=False)
from prefect.client.orchestration import get_client
from mcvrp.flows.server.server import own_server
from mcvrp.tasks.support.processes import free_port

direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
port = free_port()
server = f"http://127.0.0.1:{port}"

def ask(path, method="GET", body=None, **headers):
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(server + path, body, headers, method=method)
    try:
        with direct.open(request, timeout=60) as answer:
            return answer.status, answer.headers.get("Access-Control-Allow-Origin"), answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers.get("Access-Control-Allow-Origin"), error.read().decode()

async def listen():
    async with connect(server.replace("http", "ws") + "/api/events/out", proxy=None) as socket:
        await socket.send(json.dumps({"type": "auth", "token": "guess"}))
        return await socket.recv()

with tempfile.TemporaryFile("w+") as log, own_server(port, log):
    evil, flow = "https://evil.example", b'{"name": "theirs"}'
    answers = {
        "drive-by": ask("/api/flows/", "POST", flow, Origin=evil, Content_Type="text/plain"),
        "preflight": ask("/api/flows/", "OPTIONS", Origin=evil, Access_Control_Request_Method="POST",
                         Access_Control_Request_Headers="authorization"),
        "own page": ask("/api/flows/", "OPTIONS", Origin=server, Access_Control_Request_Method="POST"),
        "read": ask("/api/flow_runs/count", "POST", b"{}", Content_Type="application/json"),
        "guess": ask("/api/flow_runs/count", "POST", b"{}", Authorization="Basic bWN2cnA6bWN2cnA="),
        "token": ask("/api/csrf-token?client=me"),
        "rebound": ask("/api/flow_runs/count", "POST", b"{}", Host=f"evil.example:{port}"),
        "health": ask("/api/health"),
        "pages": ask("/", Accept="text/html"),
    }
    try:
        asyncio.run(listen())
    except Exception as error:
        answers["socket"] = type(error).__name__
    with get_client(sync_client=True) as client:
        answers["flows"] = [flow.name for flow in client.read_flows()]
print(json.dumps(answers))
"""


@pytest.mark.parametrize("password", ["", "admin:0p3r4t0r"])
def test_without_the_password_there_is_no_access(password: str, place: Workplace) -> None:
    """A password of the user or a random one; the pages are unpacked to a folder of the user, too."""
    done = place.python("-c", KNOCKS, **({"PREFECT_SERVER_API_AUTH_STRING": password} if password else {}))
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    for knock in ("drive-by", "read", "guess", "token", "rebound"):
        status, _, text = answers[knock]
        assert (knock, status, text) == (knock, 401, '{"exception_message":"Unauthorized"}')
    assert answers["drive-by"][1] is None
    assert answers["preflight"][:2] == [400, None]
    assert answers["own page"][0] == 200
    assert answers["health"][0] == answers["pages"][0] == 200
    assert list((place.prefect / "mcvrp-ui").glob("v?/index.html"))
    assert answers["socket"].startswith("ConnectionClosed") or answers["socket"] == "InvalidStatus"
    assert answers["flows"] == []
    assert "0p3r4t0r" not in done.stdout + done.stderr
