"""Tests of what our own Prefect server is started with."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from prefect.settings import PREFECT_HOME, PREFECT_UI_STATIC_DIRECTORY, temporary_settings

from mcvrp.flows.server.server import Server, _pages_folder, server_at

FOLDER = "PREFECT_UI_STATIC_DIRECTORY"


@pytest.fixture
def of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that somebody else installed Prefect into; permissions do not bind the root of a test."""
    folder, asked = tmp_path / "others", os.access
    monkeypatch.setattr(
        os, "access", lambda place, mode: folder not in Path(place).parents and asked(place, mode)
    )
    monkeypatch.setenv("MCVRP_CACHE", str(tmp_path / "cache"))
    return folder


def test_pages_are_unpacked_where_the_server_may_write(tmp_path: Path, of_others: Path) -> None:
    """Beside Prefect's own files, else in Prefect's home, else in our cache, else nowhere."""
    with temporary_settings({PREFECT_HOME: tmp_path / "home"}):
        assert _pages_folder(tmp_path) == {}
        assert _pages_folder(of_others / "prefect") == {FOLDER: str(tmp_path / "home" / "mcvrp-ui")}
    with temporary_settings({PREFECT_HOME: of_others / "home"}):
        assert _pages_folder(of_others / "prefect") == {FOLDER: str(tmp_path / "cache" / "prefect-ui")}
    with temporary_settings({PREFECT_UI_STATIC_DIRECTORY: "/given"}):
        assert _pages_folder(of_others / "prefect") == {}


def test_a_server_has_a_password_of_its_own() -> None:
    """A new one each time, which the link has and no representation shows; that of others is not known."""
    one, other = server_at(4200), server_at(4200)
    assert one.password != other.password
    assert one.link == f"http://127.0.0.1:4200/enter#{one.password}"
    assert str(one.password) not in repr(one)
    assert Server(one.url).link == "http://127.0.0.1:4200"
