"""Tests of access to the server of a command: only with its password, and from no other site."""

from __future__ import annotations

import json

import pytest

from tests.support.command import Workplace

pytestmark = pytest.mark.slow

# As if the folder of Prefect were not writable.
READ_ONLY = """
import os
access = os.access
os.access = lambda place, mode: "prefect/server" not in f"{place}/" and access(place, mode)
"""

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
    answers = {
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
        answers["socket"] = type(error).__name__
    with get_client(sync_client=True) as client:
        answers["flows"] = [flow.name for flow in client.read_flows()]
    from prefect.settings import PREFECT_API_AUTH_STRING, temporary_settings
    with temporary_settings({PREFECT_API_AUTH_STRING: "mcvrp:guess"}):
        try:
            running_server(server.url)
        except McvrpError as error:
            answers["sentence"] = str(error)
    answers["link"], answers["page"], answers["framed"] = server.link, server.page, framed
print(json.dumps(answers))
"""


def test_without_the_password_there_is_no_access(place: Workplace) -> None:
    done = place.python("-c", KNOCKS)
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    for knock in ("drive-by", "read", "guess", "token"):
        status, _, text = answers[knock]
        assert (knock, status, text) == (knock, 401, '{"exception_message":"Unauthorized"}')
    assert answers["drive-by"][1] is None
    assert answers["preflight"][:2] == [400, None]
    assert answers["own page"][:2] == [200, answers["page"]]
    assert answers["health"][0] == answers["entry"][0] == answers["pages"][0] == 200
    assert {tuple(headers) for headers in answers["framed"]} == {("frame-ancestors 'none'", "DENY")}
    assert answers["rebound"][0] == answers["rebound page"][0] == answers["by its owner's name"][0] == 400
    assert answers["by name"][0] == answers["by IPv6"][0] == 200
    assert answers["socket"].startswith("ConnectionClosed") or answers["socket"] == "InvalidStatus"
    assert answers["flows"] == []
    assert answers["sentence"].startswith("the Prefect server at http://127.0.0.1:")
    assert "asks for a password: set PREFECT_API_AUTH_STRING" in answers["sentence"]
    password = answers["link"].removeprefix(f"{answers['page']}/enter#mcvrp:")
    assert len(password) >= 32
    assert password not in done.stderr + "".join(map(str, answers["entry"]))


def test_a_password_of_the_operator_is_used_and_not_printed(place: Workplace) -> None:
    """As well as a host name; the UI is unpacked to PREFECT_HOME if Prefect's folder is not writable."""
    password = {"PREFECT_SERVER_API_AUTH_STRING": "admin:0p3r4t0r"}
    host = {"PREFECT_UI_API_URL": "https://prefect.example/api"}
    done = place.python("-c", READ_ONLY + KNOCKS, **password, **host)
    assert done.returncode == 0, done.stderr
    assert list((place.prefect / "mcvrp-ui").glob("v?/index.html"))
    answers = json.loads(done.stdout)
    assert answers["pages"][0] == 200
    assert answers["link"] == answers["page"]
    assert answers["read"][0] == 401
    assert answers["by its owner's name"][0] == 200
    assert answers["flows"] == []
    assert "0p3r4t0r" not in done.stdout + done.stderr
