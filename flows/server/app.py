"""The program of our own Prefect server: Prefect's, and a page that takes the password from the link."""

from __future__ import annotations

import asyncio
import gc
import itertools
import threading
import time
from http import HTTPStatus
from urllib.parse import urlsplit

from prefect.server.api.server import create_app as create_prefect
from prefect.settings import PREFECT_UI_API_URL, PREFECT_UI_URL
from sqlalchemy.exc import OperationalError
from starlette.datastructures import MutableHeaders
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcvrp.flows.server.server import ENTRY

# Prefect's pages keep the password here, and send it with each request; the browser itself sends nothing.
# One that lets nobody in replaces none: any page of others can open this one.
_PAGE = """<!doctype html><meta charset="utf-8"><title>mcvrp</title><noscript>JavaScript is off</noscript>
<script>
const given = btoa(unescape(location.hash.slice(1)));
fetch("/api/admin/version", {headers: {Authorization: "Basic " + given}}).then(answer => {
  if (answer.ok) localStorage.setItem("prefect-password", given);
}).finally(() => location.replace("/"));
</script>
"""
# No page of others shows ours in a frame, where its visitors would click on what they do not see.
_HEADERS = {"Content-Security-Policy": "frame-ancestors 'none'", "X-Frame-Options": "DENY"}
_LOCAL = ("127.0.0.1", "localhost", "[::1]")
_SQLITE = "database is locked"
_BUSY_SECONDS = 20.0  # for which a request is repeated while the database is busy
_FIRST_WAIT, _LONGEST_WAIT = 0.02, 0.5  # seconds between two tries
_COLLECT_SECONDS = 1.0
_WHOLE = 60  # of these collections one looks through everything: 0.1 s, in which nobody is served


def create_app() -> ASGIApp:
    """Return the application that uvicorn serves; a thread collects its process's garbage from now on."""
    app = create_prefect()
    _collect_aside()
    # before Prefect's routes: the last of these takes every path
    app.router.routes.insert(0, Route(ENTRY, _enter))
    # around it: Prefect's own services ask the application itself, by another name
    return TrustedHostMiddleware(_unframed(_repeated(app)), _hosts(), www_redirect=False)


def _hosts() -> list[str]:
    """Return the names that the server goes by: those of this machine, and where its pages look for it.

    Under another name, which its owner may point anywhere, a page of others would be of the same origin.
    """
    addresses = (PREFECT_UI_API_URL.value(), PREFECT_UI_URL.value())
    return [*_LOCAL, *filter(None, (urlsplit(str(address or "")).hostname for address in addresses))]


def _unframed(app: ASGIApp) -> ASGIApp:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        await app(scope, receive, sent if scope["type"] == "http" else send)

    return answer


def _repeated(app: ASGIApp) -> ASGIApp:
    """Repeat requests for which SQLite was busy, as Prefect's own clients do; its pages would show an error.

    Prefect answers 503 when another write came between a transaction's read and its write, for which
    SQLite does not wait: with 15 runs at once, most could not be created at the first try. Any other 503
    is passed on at once.
    """

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        body, wait, until = await _body(receive), _FIRST_WAIT, time.monotonic() + _BUSY_SECONDS
        while await _is_busy(app, scope, body, receive, send, last=time.monotonic() > until):
            await asyncio.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT)

    return answer


async def _is_busy(
    app: ASGIApp, scope: Scope, body: list[Message], receive: Receive, send: Send, *, last: bool
) -> bool:
    """Send the answer of ``app``; return whether SQLite was busy instead, before the ``last`` try."""
    rest, held = iter(body), list[Message]()

    async def received() -> Message:
        return next(rest, None) or await receive()

    async def sent(message: Message) -> None:
        if held or message.get("status") == HTTPStatus.SERVICE_UNAVAILABLE:
            held.append(message)
        else:
            await send(message)

    error: Exception | None = None
    try:
        await app(dict(scope), received, sent)
    except Exception as raised:  # Prefect raises what it has answered with 503
        if held and not last and isinstance(raised, OperationalError) and _SQLITE in str(raised):
            return True
        error = raised
    for message in held:
        await send(message)
    if error:
        raise error
    return False


async def _body(receive: Receive) -> list[Message]:
    """Return the messages of a request up to the end of its body."""
    messages = [await receive()]
    while messages[-1].get("more_body"):
        messages.append(await receive())
    return messages


async def _enter(request: Request) -> HTMLResponse:
    return HTMLResponse(_PAGE, headers={"Cache-Control": "no-store"})


def _collect_aside() -> None:
    """Have no garbage collected by the thread that serves.

    The cursor of a statement that failed ends as garbage, and SQLite lets nobody end it while its
    connection waits for another to write. The thread that serves would wait with it, for a minute, and
    with that for itself: it alone can have the other connection commit.
    """
    gc.collect()
    gc.freeze()  # what is imported stays: never looked through again
    gc.disable()
    threading.Thread(target=_collect, name="garbage", daemon=True).start()


def _collect() -> None:
    for number in itertools.count(1):
        time.sleep(_COLLECT_SECONDS)
        gc.collect(1 if number % _WHOLE else 2)
