"""Fault-injecting proxy in front of an S3 server."""

from __future__ import annotations

import http.client
import math
import socket
import struct
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.s3_server import S3Server

METHODS = ("GET", "HEAD", "PUT", "POST", "DELETE")


class Proxy:
    """Proxy in front of the server with configurable faults.

    Faults, by name: "403", "503", "409 OperationAborted", ... (an answer with that status, and that word in
    its body), "hang" (no answer), "reset" (the connection breaks before the request), "cut upload" (in the
    middle of the body), "cut download" (half of the answer), "lose answer" (the request is carried out).
    """

    def __init__(self, target: str) -> None:
        self.failed = 0  # requests that met a fault
        self.served = 0  # requests that reached the server
        self._target = urlsplit(target)
        self._fault: tuple[str, tuple[str, ...], float] = ("", (), 0)
        self._turn = threading.Lock()
        self.repaired = threading.Event()
        self._server = _Listener(("127.0.0.1", 0), _ProxyHandler)
        self._server.proxy = self
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def fail(self, fault: str, *, methods: tuple[str, ...] = METHODS, times: float = math.inf) -> None:
        """Inject ``fault`` into the next ``times`` requests with one of ``methods``."""
        self.repaired.clear()
        with self._turn:
            self._fault = (fault, methods, times)

    def repair(self) -> None:
        self.fail("", times=0)
        self.repaired.set()

    def close(self) -> None:
        self.repair()
        self._server.shutdown()
        self._server.server_close()

    def next_fault(self, method: str) -> str:
        with self._turn:
            fault, methods, times = self._fault
            if method not in methods or times < 1:
                self.served += 1
                return ""
            self._fault = (fault, methods, times - 1)
            self.failed += 1
            self.served += fault == "lose answer"
            return fault

    def forward(self, handler: _ProxyHandler, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection(str(self._target.hostname), self._target.port, timeout=60)
        try:
            connection.putrequest(handler.command, handler.path, skip_host=True, skip_accept_encoding=True)
            for name, value in handler.headers.items():
                if name.lower() not in ("connection", "expect"):
                    connection.putheader(name, value)
            connection.endheaders(body or None)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    proxy: Proxy

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore broken connections."""


class _ProxyHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Listener

    def answer(self) -> None:
        proxy = self.server.proxy
        fault = proxy.next_fault(self.command)
        if fault == "hang":
            proxy.repaired.wait()
        if fault in ("hang", "reset"):
            return self._break()
        length = int(self.headers.get("Content-Length", 0))
        if fault == "cut upload" and length:
            self.rfile.read(length // 2)
            return self._break()
        body = self.rfile.read(length)
        if fault[:3].isdigit():
            status, _, word = fault.partition(" ")
            document = f"<Error><Code>{word}</Code><Message>not now</Message></Error>"
            return self._send(int(status), [], document.encode() if word and self.command != "HEAD" else b"")
        status_code, headers, data = proxy.forward(self, body)
        if fault == "lose answer":
            return self._break()
        if fault == "cut download":
            self._send(status_code, headers, data[: len(data) // 2])
            return self._break()
        return self._send(status_code, headers, data)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer

    def log_message(self, *arguments: object) -> None:
        """Keep the output free of requests."""

    def _send(self, status: int, headers: list[tuple[str, str]], data: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                self.send_header(name, value)
        length = next((value for name, value in headers if name.lower() == "content-length"), str(len(data)))
        self.send_header("Content-Length", length)
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()

    def _break(self) -> None:
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()


@pytest.fixture
def proxy(s3: S3Server) -> Iterator[Proxy]:
    proxy = Proxy(s3.endpoint)
    yield proxy
    proxy.close()
