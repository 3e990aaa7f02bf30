"""Proxy in front of an S3 server: faults on demand, and conditions of a distant, busy server."""

from __future__ import annotations

import http.client
import math
import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.s3_server import S3Server

METHODS = ("GET", "HEAD", "PUT", "POST", "DELETE")
_CHUNK = 2**18  # bytes relayed at once


@dataclass(frozen=True)
class Conditions:
    """Conditions that every request meets; the defaults are those of a perfect server."""

    latency: float = 0.0  # median seconds per request, log-normal
    spread: float = 0.4  # standard deviation of its logarithm
    refused: float = 0.0  # share of requests answered with 503 SlowDown or 429
    cut: float = 0.0  # share of requests whose body, or answer's body, ends in the middle


DISTANT = Conditions(latency=0.1, refused=0.02, cut=0.005)


class Proxy:
    """Proxy in front of the server with configurable faults.

    Faults, by name: "403", "503", "409 OperationAborted", ... (an answer with that status, and that word in
    its body), "hang" (no answer), "reset" (the connection breaks before the request), "cut upload" (in the
    middle of the body), "cut download" (half of the answer), "lose answer" (the request is carried out).
    """

    def __init__(self, target: str, conditions: Conditions = Conditions()) -> None:
        self.failed = 0  # requests that met a fault
        self.served = 0  # requests that reached the server
        self.conditions = conditions
        self._target = urlsplit(target)
        self._fault: tuple[str, tuple[str, ...], float] = ("", (), 0)
        self._spared = 0
        self._turn = threading.Lock()
        self._chance = random.Random(1)
        self.repaired = threading.Event()
        self._server = _Listener(("127.0.0.1", 0), _ProxyHandler)
        self._server.proxy = self
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def fail(
        self, fault: str, *, methods: tuple[str, ...] = METHODS, times: float = math.inf, spared: int = 0
    ) -> None:
        """Inject ``fault`` into ``times`` requests with one of ``methods``, after the next ``spared``."""
        self.repaired.clear()
        with self._turn:
            self._fault, self._spared = (fault, methods, times), spared

    def repair(self) -> None:
        self.fail("", times=0)
        self.repaired.set()

    def close(self) -> None:
        self.repair()
        self._server.shutdown()
        self._server.server_close()

    def next_fault(self, method: str) -> str:
        """Return the fault that this request meets, "" for none."""
        now = self.conditions
        with self._turn:
            fault, methods, times = self._fault
            if method in methods and times >= 1 and not self._spared:
                self._fault = (fault, methods, times - 1)
                self.failed += 1
            else:
                self._spared -= method in methods and self._spared > 0
                fault = self._condition(now, method)
            self.served += fault in ("", "lose answer", "cut download")
            latency = now.latency * math.exp(self._chance.gauss(0.0, now.spread))
        time.sleep(latency)
        return fault

    def fault_of(self, headers: Message) -> str:
        """Return the fault that a request with ``headers`` meets."""
        return ""

    def _condition(self, now: Conditions, method: str) -> str:
        draw = self._chance.random()
        if draw < now.refused:
            return "503 SlowDown" if draw < now.refused / 2 else "429 TooManyRequests"
        if draw < now.refused + now.cut:
            return "cut download" if method in ("GET", "HEAD") else "cut upload"
        return ""

    def forward(self, handler: _ProxyHandler, length: int) -> http.client.HTTPResponse:
        """Send the request with its body of ``length`` bytes on; return the answer, whose body is unread."""
        connection = http.client.HTTPConnection(str(self._target.hostname), self._target.port, timeout=60)
        connection.putrequest(handler.command, handler.path, skip_host=True, skip_accept_encoding=True)
        for name, value in handler.headers.items():
            if name.lower() not in ("connection", "expect"):
                connection.putheader(name, value)
        connection.putheader("Connection", "close")  # so that the answer owns the socket
        connection.endheaders()
        for chunk in handler.body(length):
            connection.send(chunk)
        return connection.getresponse()


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    proxy: Proxy

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore broken connections."""


class _ProxyHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body are sent apart: it would delay the second by 40 ms
    server: _Listener

    def answer(self) -> None:
        proxy = self.server.proxy
        fault = proxy.next_fault(self.command) or proxy.fault_of(self.headers)
        if fault == "hang":
            proxy.repaired.wait()
        if fault in ("hang", "reset"):
            return self._break()
        length = int(self.headers.get("Content-Length", 0))
        if fault == "cut upload" and length:
            for _ in self.body(length // 2):
                pass
            return self._break()
        if fault[:3].isdigit():
            for _ in self.body(length):
                pass
            status, _, word = fault.partition(" ")
            document = f"<Error><Code>{word}</Code><Message>not now</Message></Error>".encode()
            return self._refuse(int(status), document if word and self.command != "HEAD" else b"")
        with proxy.forward(self, length) as response:
            if fault == "lose answer":
                response.read()
                return self._break()
            return self._relay(response, whole=fault != "cut download")

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer

    def body(self, length: int) -> Iterator[bytes]:
        while length:
            chunk = self.rfile.read(min(length, _CHUNK))
            if not chunk:
                raise ConnectionError("the client has gone")
            length -= len(chunk)
            yield chunk

    def log_message(self, *arguments: object) -> None:
        """Keep the output free of requests."""

    def _refuse(self, status: int, document: bytes) -> None:
        self.send_response_only(status)
        self.send_header("Content-Length", str(len(document)))
        self.end_headers()
        self.wfile.write(document)

    def _relay(self, response: http.client.HTTPResponse, *, whole: bool) -> None:
        """Send ``response`` on, or half of its body."""
        data = b"" if response.length is not None else response.read()  # the server sends it in chunks
        length = response.getheader("Content-Length") or str(len(data))
        self.send_response_only(response.status)
        for name, value in response.getheaders():
            if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                self.send_header(name, value)
        self.send_header("Content-Length", length)
        self.end_headers()
        left = (response.length or len(data)) if whole else (response.length or len(data)) // 2
        while left:
            chunk = data[:left] if data else response.read(min(left, _CHUNK))
            self.wfile.write(chunk)
            left -= len(chunk)
        if not whole:
            self._break()

    def _break(self) -> None:
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()


@pytest.fixture
def proxy(s3: S3Server) -> Iterator[Proxy]:
    proxy = Proxy(s3.endpoint)
    yield proxy
    proxy.close()
