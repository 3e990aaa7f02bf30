"""Tests of access to the server of a command: only with its password, and from no other site."""

from __future__ import annotations

import json

import pytest

from tests.support.command import Workplace

# Requests of a page in the browser of this machine, and of another user of it; then of the UI itself.
KNOCKS = """
import asyncio, json, os, urllib.error, urllib.request
from websockets.asyncio.client import connect
from mcvrp.flows.config import settings
settings.prepare(verbose=False)
from prefect.client.orchestration import get_client
from mcvrp.flows.server.server import prefect_server, running_server
from mcvrp.model.errors import McvrpError

framed, FRAMES = [], ("Content-Security-Policy", "X-Frame-Options")
direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))

def ask(path, method="GET", body=None, **headers):
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(server.page + path, body, headers, method=method)
    try:
        with direct.open(request, timeout=60) as answer:
            framed.append([answer.headers.get(name) for name in FRAMES])
            return answer.status, answer.headers.get("Access-Control-Allow-Origin"), answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers.get("Access-Control-Allow-Origin"), error.read().decode()

async def listen():
    async with connect(server.url.replace("http", "ws") + "/events/out", proxy=None) as socket:
        await socket.send(json.dumps({"type": "auth", "token": "guess"}))
        return await socket.recv()

with prefect_server() as server:
    evil, flow = "https://evil.example", b'{"name": "theirs"}'
    said = {
        "drive-by": ask("/api/flows/", "POST", flow, Origin=evil, Content_Type="text/plain"),
        "preflight": ask("/api/flows/", "OPTIONS", Origin=evil, Access_Control_Request_Method="POST",
                         Access_Control_Request_Headers="authorization"),
        "own page": ask("/api/flows/", "OPTIONS", Origin=server.page, Access_Control_Request_Method="POST"),
        "read": ask("/api/flow_runs/count", "POST", b"{}", Content_Type="application/json"),
        "guess": ask("/api/flow_runs/count", "POST", b"{}", Authorization="Basic bWN2cnA6bWN2cnA="),
        "token": ask("/api/csrf-token?client=me"),
        "health": ask("/api/health"),
        "entry": ask("/enter"),
        "pages": ask("/", Accept="text/html"),
        "rebound": ask("/api/health", Host="evil.example:" + server.page.rpartition(":")[2]),
        "rebound page": ask("/enter", Host="evil.example"),
        "by name": ask("/api/health", Host="LOCALHOST:1"),
        "by IPv6": ask("/api/health", Host="[::1]:1"),
        "by its owner's name": ask("/api/health", Host="prefect.example"),
    }
    try:
        asyncio.run(listen())
    except Exception as error:
        said["socket"] = type(error).__name__
    with get_client(sync_client=True) as client:
        said["flows"] = [flow.name for flow in client.read_flows()]
    from prefect.settings import PREFECT_API_AUTH_STRING, temporary_settings
    with temporary_settings({PREFECT_API_AUTH_STRING: "mcvrp:guess"}):
        try:
            running_server(server.url)
        except McvrpError as error:
            said["sentence"] = str(error)
    said["link"], said["page"], said["framed"] = server.link, server.page, framed
print(json.dumps(said))
"""


def test_without_the_password_there_is_no_access(place: Workplace) -> None:
    """Neither by a request that needs no preflight, nor by reading, nor by a websocket."""
    done = place.python("-c", KNOCKS)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    for knock in ("drive-by", "read", "guess", "token"):
        status, _, text = said[knock]
        assert (knock, status, text) == (knock, 401, '{"exception_message":"Unauthorized"}')
    assert said["drive-by"][1] is None
    assert said["preflight"][:2] == [400, None]
    assert said["own page"][:2] == [200, said["page"]]
    assert said["health"][0] == said["entry"][0] == said["pages"][0] == 200
    assert {tuple(headers) for headers in said["framed"]} == {("frame-ancestors 'none'", "DENY")}
    assert said["rebound"][0] == said["rebound page"][0] == said["by its owner's name"][0] == 400
    assert said["by name"][0] == said["by IPv6"][0] == 200
    assert said["socket"].startswith("ConnectionClosed") or said["socket"] == "InvalidStatus"
    assert said["flows"] == []
    assert said["sentence"].startswith("the Prefect server at http://127.0.0.1:")
    assert "asks for a password: set PREFECT_API_AUTH_STRING" in said["sentence"]
    password = said["link"].removeprefix(f"{said['page']}/enter#mcvrp:")
    assert len(password) >= 32
    assert password not in done.stderr + "".join(map(str, said["entry"]))


@pytest.mark.slow
def test_a_password_of_the_operator_is_used_and_not_printed(place: Workplace) -> None:
    """A password of Prefect's settings, as well as a host name; the link does not contain it."""
    given = {"PREFECT_SERVER_API_AUTH_STRING": "admin:0p3r4t0r"}
    done = place.python("-c", KNOCKS, **given, PREFECT_UI_API_URL="https://prefect.example/api")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["link"] == said["page"]
    assert said["read"][0] == 401
    assert said["by its owner's name"][0] == 200
    assert said["flows"] == []
    assert "0p3r4t0r" not in done.stdout + done.stderr
