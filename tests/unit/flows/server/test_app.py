"""Start of the Prefect servers of mcvrp."""

from __future__ import annotations

import asyncio
import contextlib
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from prefect.settings import PREFECT_HOME, temporary_settings
from starlette.types import Message, Receive, Scope, Send


def test_servers_create_their_tables_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two commands on a new machine: at once, one failed with an error of the database."""
    from mcvrp.flows.server import app  # takes 3 s, here and not in each process that collects the tests

    monkeypatch.setattr(app, "transactions_lock_first", contextlib.nullcontext)  # once a process
    starting, most = 0, 0

    async def server(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal starting, most
        starting += 1
        most = max(most, starting)
        time.sleep(0.1)
        starting -= 1
        await send({"type": "lifespan.startup.complete"})
        time.sleep(0.1)  # it serves until the other one does

    async def none(message: Message | None = None) -> Message:
        return {}

    def start() -> None:
        with temporary_settings({PREFECT_HOME: tmp_path / "new"}):
            asyncio.run(app._locking_first(server)({"type": "lifespan"}, none, none))  # type: ignore[arg-type]

    with ThreadPoolExecutor(3) as pool:
        for started in [pool.submit(start) for _ in range(3)]:
            started.result()
    assert most == 1
