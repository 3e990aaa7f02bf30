"""Tests of Prefect servers that mcvrp starts: their settings, the wait for them, errors at the start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import AsyncMock

import pytest
from prefect.settings import PREFECT_HOME, PREFECT_UI_STATIC_DIRECTORY, temporary_settings

from mcvrp.flows.server import server as module
from mcvrp.flows.server.server import Server, _pages_folder, server_at, server_keeper
from mcvrp.model.errors import LONGEST, McvrpError
from mcvrp.tasks.support.processes import free_port

FOLDER = "PREFECT_UI_STATIC_DIRECTORY"


@pytest.fixture
def read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is not writable, for root neither, who runs tests in containers."""
    folder, access = tmp_path / "others", os.access
    monkeypatch.setattr(
        os, "access", lambda place, mode: folder not in Path(place).parents and access(place, mode)
    )
    monkeypatch.setenv("MCVRP_CACHE", str(tmp_path / "cache"))
    return folder


def test_pages_are_unpacked_where_the_server_may_write(tmp_path: Path, read_only: Path) -> None:
    with temporary_settings({PREFECT_HOME: tmp_path / "home"}):
        assert _pages_folder(tmp_path) == {}
        assert _pages_folder(read_only / "prefect") == {FOLDER: str(tmp_path / "home" / "mcvrp-ui")}
    with temporary_settings({PREFECT_HOME: read_only / "home"}):
        assert _pages_folder(read_only / "prefect") == {FOLDER: str(tmp_path / "cache" / "prefect-ui")}
    with temporary_settings({PREFECT_UI_STATIC_DIRECTORY: "/given"}):
        assert _pages_folder(read_only / "prefect") == {}


def test_a_server_has_a_password_of_its_own() -> None:
    one, other = server_at(4200), server_at(4200)
    assert one.password != other.password
    assert one.link == f"http://127.0.0.1:4200/enter#{one.password}"
    assert str(one.password) not in repr(one)
    assert Server(one.url).link == "http://127.0.0.1:4200"


@pytest.mark.parametrize("name", ["ssl", "sslmode"])
def test_the_database_is_reached_over_tls_under_both_names(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check by asyncpg's name in addresses, the server by that of its arguments."""
    connect = AsyncMock()
    monkeypatch.setattr("asyncpg.connect", connect)
    address = f"postgresql://me:word@host/name?{name}=require"
    changes = module.database_environment(address)
    assert connect.await_args.args == ("postgresql://me:word@host/name?sslmode=require",)
    assert set(changes.values()) == {"postgresql+asyncpg://me:word@host/name?ssl=require"}


@pytest.mark.slow
def test_a_server_that_does_not_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cause, not that it failed, which is the last line of its log."""
    monkeypatch.setenv("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")  # as a quiet command has it
    database = tmp_path / "prefect.db"
    database.write_bytes(b"no database" * 1000)
    changes = {
        "PREFECT_HOME": str(tmp_path),
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{database}",
    }
    with (tmp_path / "log").open("w+") as log, pytest.raises(McvrpError) as caught:
        server_keeper(server_at(free_port()), log, changes).__enter__()
    assert "(sqlalchemy.exc.DatabaseError: (sqlite3.DatabaseError) file is not a database)" in str(
        caught.value
    )
    assert len(str(caught.value)) <= LONGEST


@pytest.mark.slow
def test_only_its_owner_can_read_the_database(tmp_path: Path) -> None:
    changes = {"PREFECT_HOME": str(tmp_path)}
    before = os.umask(0o022)
    try:
        with (tmp_path / "log").open("w+") as log, server_keeper(server_at(free_port()), log, changes):
            pass
    finally:
        os.umask(before)
    assert (tmp_path / "prefect.db").stat().st_mode & 0o777 == 0o600


def test_a_server_is_waited_for_as_long_as_it_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    health = iter([False] * 5 + [True])
    monkeypatch.setattr(module, "answers", lambda url, seconds: next(health))
    monkeypatch.setattr(module, "STILL_SECONDS", 0.0)
    monkeypatch.setattr(module, "_LOOK_SECONDS", 0.001)
    process = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"], text=True, start_new_session=True
    )
    monkeypatch.setattr(module, "start_group", lambda *_, **__: process)
    caplog.set_level("INFO", logger="mcvrp")
    with (tmp_path / "log").open("w+") as log, server_keeper(server_at(free_port()), log, {}):
        assert process.poll() is None
    assert process.poll() is not None
    assert sum("the Prefect server has been starting for" in line for line in caplog.messages) == 5
