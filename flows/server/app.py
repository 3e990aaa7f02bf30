"""Application of the Prefect servers that mcvrp starts: Prefect's own with a login page and safeguards."""

from __future__ import annotations

import contextlib
import fcntl
import gc
import itertools
import os
import threading
import time
from urllib.parse import urlsplit

from prefect.server.api.server import create_app as create_prefect
from prefect.settings import PREFECT_HOME, PREFECT_UI_API_URL, PREFECT_UI_URL
from starlette.datastructures import MutableHeaders
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import HTMLResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcvrp.flows.server.prefect_internals import transactions_lock_first
from mcvrp.flows.server.server import ENTRY

# Logs in with the password that follows the # of the address. Prefect's pages read it from localStorage and
# send it with each request. A wrong password replaces none, because the pages of any site can open this one.
_PAGE = """<!doctype html><meta charset="utf-8"><title>mcvrp</title><noscript>JavaScript is off</noscript>
<script>
const password = btoa(unescape(location.hash.slice(1)));
fetch("/api/admin/version", {headers: {Authorization: "Basic " + password}}).then(answer => {
  if (answer.ok) localStorage.setItem("prefect-password", password);
}).finally(() => location.replace("/"));
</script>
"""
# Against clickjacking: other sites cannot show the UI in a frame.
_HEADERS = {"Content-Security-Policy": "frame-ancestors 'none'", "X-Frame-Options": "DENY"}
_LOCAL = ("127.0.0.1", "localhost", "[::1]")
_COLLECT_SECONDS = 1.0
_FULL = 60  # every 60th collection is of all generations: 0.1 s in which no request is served


def create_app() -> ASGIApp:
    """Return the application that uvicorn serves; garbage is collected by a thread from now on."""
    app = create_prefect()
    _collect_aside()
    # before Prefect's routes, the last of which matches every path
    page = HTMLResponse(_PAGE, headers={"Cache-Control": "no-store"})
    app.router.routes.insert(0, Route(ENTRY, lambda request: page))
    # Wrapped instead of added as middleware: Prefect's services call the inner one under another host name.
    served = _unframed(_locking_first(app))
    # Against DNS rebinding: a site that points its name to this machine would have the same origin as the UI.
    addresses = (PREFECT_UI_API_URL.value(), PREFECT_UI_URL.value())
    named = filter(None, (urlsplit(str(address or "")).hostname for address in addresses))
    return TrustedHostMiddleware(served, [*_LOCAL, *named], www_redirect=False)


def _locking_first(app: ASGIApp) -> ASGIApp:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await app(scope, receive, send)
            return
        # One start at a time: two servers that create the tables of a new database at once would both fail.
        PREFECT_HOME.value().mkdir(parents=True, exist_ok=True)
        home = os.open(PREFECT_HOME.value(), os.O_RDONLY)
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(home, fcntl.LOCK_EX)

        async def sent(message: Message) -> None:
            if message["type"].startswith("lifespan.startup"):  # complete or failed
                os.close(home)
            await send(message)

        # The lifespan lasts as long as the server, and its services run within.
        with transactions_lock_first():
            await app(scope, receive, sent)

    return answer


def _unframed(app: ASGIApp) -> ASGIApp:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        await app(scope, receive, sent if scope["type"] == "http" else send)

    return answer


def _collect_aside() -> None:
    """Move garbage collection from the thread that serves to one of its own.

    A cursor whose statement failed becomes garbage. It cannot be closed while its connection waits
    for another one to commit. If the serving thread collected it, it would wait for a minute for itself: only
    that thread can commit the other transaction.
    """
    gc.collect()
    gc.freeze()  # imported modules stay alive: no collection has to visit them
    gc.disable()
    threading.Thread(target=_collect, name="garbage", daemon=True).start()


def _collect() -> None:
    for number in itertools.count(1):
        time.sleep(_COLLECT_SECONDS)
        gc.collect(1 if number % _FULL else 2)
