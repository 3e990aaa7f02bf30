"""The program of our own Prefect server: Prefect's, and a page that takes the password from the link."""

from __future__ import annotations

import gc
import itertools
import threading
import time

from fastapi import FastAPI
from prefect.server.api.server import create_app as create_prefect
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from mcvrp.flows.server.server import ENTRY

# Prefect's pages keep the password here, and send it with each request; the browser itself sends nothing.
_PAGE = """<!doctype html><meta charset="utf-8"><title>mcvrp</title><noscript>JavaScript is off</noscript>
<script>
if (location.hash.length > 1) localStorage.setItem("prefect-password", btoa(location.hash.slice(1)));
location.replace("/");
</script>
"""
_COLLECT_SECONDS = 1.0
_WHOLE = 60  # of these collections one looks through everything: 0.1 s, in which nobody is served


def create_app() -> FastAPI:
    """Return the application that uvicorn serves; a thread collects its process's garbage from now on."""
    app = create_prefect()
    _collect_aside()
    # before Prefect's routes: the last of these takes every path
    app.router.routes.insert(0, Route(ENTRY, _enter))
    return app


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
