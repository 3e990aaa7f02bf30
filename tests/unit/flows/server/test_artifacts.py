"""Tests of Prefect artifacts: their keys, progress bars, pictures and links."""

from __future__ import annotations

import base64
import re
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from prefect.context import FlowRunContext
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES

from mcvrp.flows.server import artifacts
from mcvrp.flows.server.artifacts import album, links
from mcvrp.storage.store.store import Store
from mcvrp.tasks.support.progress import Progress

pytestmark = pytest.mark.usefixtures("in_a_run")
_PREFECT_TAKES = re.compile(r"[a-z0-9-]+")


@pytest.fixture
def in_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FlowRunContext, "get", lambda: object())


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[tuple[float, str]]]:
    bars: dict[str, list[tuple[float, str]]] = {}
    keys: dict[UUID, str] = {}
    numbers = count()

    def create(progress: float, key: str, description: str) -> UUID:
        bar = UUID(int=next(numbers))
        keys[bar] = key
        bars[key] = [(progress, description)]
        return bar

    def update(bar: UUID, progress: float, description: str) -> None:
        bars[keys[bar]].append((progress, description))

    monkeypatch.setattr(artifacts, "create_progress_artifact", create)
    monkeypatch.setattr(artifacts, "update_progress_artifact", update)
    return bars


def test_each_piece_of_work_has_a_bar_that_ends_full(made: dict[str, list[tuple[float, str]]]) -> None:
    with artifacts.showing_progress("label d"):
        for label in ("labels d", "card d"):
            with Progress(label, 2, "labels") as progress:
                progress.advance(2)
    assert list(made) == ["label-d-labels-d-progress", "label-d-card-d-progress"]
    assert all(map(_PREFECT_TAKES.fullmatch, made))
    assert all(bar[0][0] == 0 and bar[-1][0] == 100 for bar in made.values())


def test_without_a_record_nothing_is_sent(
    made: dict[str, list[tuple[float, str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prefect would start a server for it."""
    monkeypatch.setattr(FlowRunContext, "get", lambda: None)
    monkeypatch.setattr(artifacts, "create_markdown_artifact", pytest.fail)
    with artifacts.showing_progress("city c"), Progress("roads", 1, "rows"):
        pass
    artifacts.show_figures("city c", "City", {"customers": 3})
    assert made == {}


def test_a_server_that_is_away_delays_and_stops_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bars and figures get one attempt: Prefect's retries take a minute. Keys differ by the output."""
    attempts: list[tuple[str, int]] = []

    def away(*_: Any, key: str, **__: Any) -> None:
        attempts.append((key, PREFECT_CLIENT_MAX_RETRIES.value()))
        raise ConnectionError

    monkeypatch.setattr(artifacts, "create_progress_artifact", away)
    monkeypatch.setattr(artifacts, "create_markdown_artifact", away)
    with artifacts.showing_progress("city c"), Progress("roads", 1, "rows") as progress:
        progress.advance()
    for dataset in ("laptop", "laptop-held-out", "Lyon_2.b"):
        artifacts.show_figures(f"label {dataset}", "Labels", {"labels": 3})
    keys = ["city-c-roads-progress"] * 2 + ["label-laptop", "label-laptop-held-out", "label-lyon-2-b"]
    assert attempts == [(key, 0) for key in keys]


def test_an_album_shows_what_exists_and_fits(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store")
    store.put("f/gaps.png", b"small")
    store.put("f/huge.png", bytes(2_000_000))
    shown = album(store, {"gaps": "f/gaps.png", "huge": "f/huge.png", "none": "f/none.png"})
    assert shown == f"![gaps](data:image/png;base64,{base64.b64encode(b'small').decode()})"


def test_files_are_shown_by_their_addresses(tmp_path: Path) -> None:
    local = links(Store.open(tmp_path / "my store"), {"the model": "models/m/0001"})
    assert f"- the model: `{tmp_path}/my store/models/m/0001`" in local
    assert "`s3://bucket/a/map.html`" in links(Store.at("s3://bucket/a"), {"the map": "map.html"})
