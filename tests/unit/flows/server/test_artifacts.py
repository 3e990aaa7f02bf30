"""Tests of what stages leave in Prefect: which key an artifact gets, and bars that move on."""

from __future__ import annotations

import re
from itertools import count
from typing import Any
from uuid import UUID

import pytest
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES

from mcvrp.flows.server import artifacts
from mcvrp.tasks.support.progress import Progress

_PREFECT_TAKES = re.compile(r"[a-z0-9-]+")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[tuple[float, str]]]:
    """Progress that every bar has shown, by its key."""
    bars: dict[str, list[tuple[float, str]]] = {}
    keys: dict[UUID, str] = {}
    numbers = count()

    def create(progress: float, key: str, description: str) -> UUID:
        found = UUID(int=next(numbers))
        keys[found] = key
        bars[key] = [(progress, description)]
        return found

    def update(bar: UUID, progress: float, description: str) -> None:
        bars[keys[bar]].append((progress, description))

    monkeypatch.setattr(artifacts, "create_progress_artifact", create)
    monkeypatch.setattr(artifacts, "update_progress_artifact", update)
    return bars


def test_two_datasets_of_one_run_have_keys_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prefect takes artifacts of one key for versions of one thing: the held-out set is another thing."""
    keys: list[str] = []

    def create(markdown: str, key: str, **_: Any) -> None:
        keys.append(key)

    monkeypatch.setattr(artifacts, "create_markdown_artifact", create)
    for dataset in ("laptop", "laptop-held-out", "Lyon_2.b"):
        artifacts.show_figures(f"label {dataset}", "Labels", {"labels": 3})
    assert keys == ["label-laptop", "label-laptop-held-out", "label-lyon-2-b"]


@pytest.mark.parametrize(
    ("thing", "label", "key"),
    [
        ("label smoke", "labels smoke", "label-smoke-labels-progress"),
        ("label smoke", "card smoke", "label-smoke-card-progress"),
        ("train smoke II-A", "train II-A", "train-smoke-ii-a-progress"),
        ("attention smoke 20", "attention model, n=20", "attention-smoke-20-model-n-progress"),
        ("pipeline smoke", "", "pipeline-smoke-progress"),
    ],
)
def test_a_bar_is_named_after_its_thing_and_no_word_twice(thing: str, label: str, key: str) -> None:
    """The key of the thing, then what the work is called beyond that."""
    assert artifacts.progress_key(thing, label) == key
    assert _PREFECT_TAKES.fullmatch(key)


def test_each_piece_of_work_has_a_bar_that_ends_full(made: dict[str, list[tuple[float, str]]]) -> None:
    """Work that reports its progress is shown from its beginning to its end."""
    with artifacts.showing_progress("label d"):
        for label in ("labels d", "card d"):
            with Progress(label, 2, "labels") as progress:
                progress.advance(2)
    assert list(made) == ["label-d-labels-progress", "label-d-card-progress"]
    assert all(bar[0][0] == 0 and bar[-1][0] == 100 for bar in made.values())


def test_steps_move_one_bar_on(made: dict[str, list[tuple[float, str]]]) -> None:
    """Each says which it is as it begins; the bar is full at the end."""
    with artifacts.showing_steps("city c", 2) as begin:
        begin("addresses")
        begin("card")
    assert made == {
        "city-c-progress": [
            (0.0, "city c: addresses (1 of 2)"),
            (50.0, "city c: card (2 of 2)"),
            (100.0, "city c: done"),
        ]
    }


def test_the_bar_of_a_step_that_fails_stays_where_it_was(made: dict[str, list[tuple[float, str]]]) -> None:
    """Nothing says done that is not."""

    def fail() -> None:
        with artifacts.showing_steps("city c", 2) as begin:
            begin("addresses")
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    assert made == {"city-c-progress": [(0.0, "city c: addresses (1 of 2)")]}


def test_a_server_that_is_gone_stops_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Showing is never worth failing for."""

    def gone(*_: Any, **__: Any) -> None:
        raise ConnectionError

    for name in ("create_progress_artifact", "create_markdown_artifact"):
        monkeypatch.setattr(artifacts, name, gone)
    with artifacts.showing_steps("city c", 1) as begin, artifacts.showing_progress("city c"):
        begin("addresses")
        artifacts.show_figures("city c", "City", {})


def test_no_work_waits_for_a_server_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bars and figures are tried once: Prefect's own tries take a minute, a bar moves every two seconds."""
    retries: list[int] = []

    def away(*_: Any, **__: Any) -> None:
        retries.append(PREFECT_CLIENT_MAX_RETRIES.value())
        raise ConnectionError

    monkeypatch.setattr(artifacts, "create_progress_artifact", away)
    monkeypatch.setattr(artifacts, "create_markdown_artifact", away)
    with artifacts.showing_steps("pipeline smoke", 2) as begin:
        begin("labels")
    artifacts.show_figures("label smoke", "Labels", {"labels": 3})
    assert retries == [0, 0, 0]
