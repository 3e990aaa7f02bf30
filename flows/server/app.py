"""The program of our own Prefect server: Prefect's, and a page that takes the password from the link."""

from __future__ import annotations

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


def create_app() -> FastAPI:
    """Return the application that uvicorn serves."""
    app = create_prefect()
    # before Prefect's routes: the last of these takes every path
    app.router.routes.insert(0, Route(ENTRY, _enter))
    return app


async def _enter(request: Request) -> HTMLResponse:
    return HTMLResponse(_PAGE, headers={"Cache-Control": "no-store"})
