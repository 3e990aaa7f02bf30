"""Aliases of a model's versions: moved by one of several concurrent processes, with a history."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.models.registry import Pointer, enrol, move_champion, pointer, roll_back
from mcvrp.storage.store.store import Store
from tests.support.killed import killed_at_each_write


@pytest.fixture
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return make_store(tmp_path_factory)


def make_store(factory: pytest.TempPathFactory) -> Store:
    """Return a store with cards of versions 1 to 9 of the model m."""
    store = Store.open(factory.mktemp("store"))
    for version in range(1, 10):
        store.put_json(layout.model_card("m", version), {})
    return store


def aliases(store: Store) -> tuple[int | None, int | None]:
    return pointer(store, "m", "champion").version, pointer(store, "m", "challenger").version


def at_once(work: Callable[[int], object], count: int) -> list[bool]:
    """Run ``work`` in ``count`` concurrent threads; return which of them raised no McvrpError."""
    barrier = threading.Barrier(count)

    def attempt(k: int) -> bool:
        barrier.wait()
        with contextlib.suppress(McvrpError):
            work(k)
            return True
        return False

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(attempt, range(count)))


def test_the_first_version_is_champion_and_later_ones_challenge(store: Store) -> None:
    """A newer challenger replaces an older one; enrolling a version again changes nothing."""
    assert aliases(store) == (None, None)
    assert enrol(store, "m", 1) == "champion"
    assert enrol(store, "m", 2) == "challenger"
    assert enrol(store, "m", 3) == "challenger"
    assert enrol(store, "m", 1) == "champion"
    assert enrol(store, "m", 2) is None
    assert enrol(store, "m", 3) == "challenger"
    assert aliases(store) == (1, 3)


def test_a_former_champion_is_no_challenger(store: Store) -> None:
    """Not after a rollback either; a newer version becomes the challenger of any champion."""
    for version in (1, 2):
        enrol(store, "m", version)
    move_champion(store, "m", 2, pointer(store, "m", "champion"))
    assert aliases(store) == (2, None)
    assert enrol(store, "m", 3) == "challenger"
    move_champion(store, "m", 3, pointer(store, "m", "champion"))
    assert roll_back(store, "m") == (3, 2)
    assert aliases(store) == (2, None)
    assert enrol(store, "m", 3) is None
    assert enrol(store, "m", 4) == "challenger"
    assert aliases(store) == (2, 4)


def test_a_challenger_that_is_the_champion_is_none(store: Store) -> None:
    enrol(store, "m", 1)
    move_champion(store, "m", 2, pointer(store, "m", "champion"))
    move = {"version": 2, "when": "now", "by": "another program", "why": ""}
    store.put_json(layout.model_move("m", "challenger", 1), move)
    assert aliases(store) == (2, None)
    assert enrol(store, "m", 3) == "challenger"


WORK: dict[str, Callable[[Store], object]] = {
    "publish": lambda store: enrol(store, "m", 4),
    "promote": lambda store: move_champion(store, "m", 3, pointer(store, "m", "champion")),
    "promote another": lambda store: move_champion(store, "m", 1, pointer(store, "m", "champion")),
    "roll back": lambda store: roll_back(store, "m"),
}


@pytest.mark.parametrize(
    ("work", "after"),
    [("publish", (2, 4)), ("promote", (3, None)), ("promote another", (1, 3)), ("roll back", (1, 3))],
)
def test_a_move_is_one_step(store: Store, tmp_path: Path, work: str, after: tuple[int, int | None]) -> None:
    """Killed at any write, the aliases are as before or after, and a retry succeeds."""
    for version in (1, 2):
        enrol(store, "m", version)
    move_champion(store, "m", 2, pointer(store, "m", "champion"))
    enrol(store, "m", 3)
    for copy, done in killed_at_each_write(store, tmp_path, WORK[work], at_least=1):
        assert aliases(copy) == (after if done else (2, 3))
        if not done:
            WORK[work](copy)
        assert aliases(copy) == after


def test_a_move_based_on_an_outdated_champion_is_refused(store: Store) -> None:
    """The error has both versions; a newer challenger is no conflict."""
    enrol(store, "m", 1)
    enrol(store, "m", 2)
    champion = pointer(store, "m", "champion")
    enrol(store, "m", 3)
    move_champion(store, "m", 5, champion)
    with pytest.raises(McvrpError, match="champion of model 'm' is version 5 now, it was version 1"):
        move_champion(store, "m", 2, champion)
    with pytest.raises(McvrpError, match="is version 5 now, it was no version"):
        move_champion(store, "m", 4, Pointer(None))
    assert aliases(store) == (5, 3)


def test_an_alias_points_to_an_existing_version(store: Store) -> None:
    """Unknown versions are refused, and a corrupt document is named."""
    with pytest.raises(McvrpError, match="no version 12 that could be its champion"):
        move_champion(store, "m", 12, Pointer(None))
    store.put(layout.model_move("m", "champion", 1), b'{"version": "two"}')
    with pytest.raises(McvrpError, match=r"champion/000001\.json is not a valid move of an alias"):
        pointer(store, "m", "champion")


def test_one_of_several_concurrent_promotions_succeeds(store: Store) -> None:
    enrol(store, "m", 1)
    seen = pointer(store, "m", "champion")
    done = at_once(lambda k: move_champion(store, "m", k + 2, seen), 8)
    assert sum(done) == 1
    assert pointer(store, "m", "champion").version == done.index(True) + 2


@settings(max_examples=10, deadline=None)
@given(order=st.permutations(range(1, 7)))
def test_concurrent_publications_end_with_the_newest_as_challenger(
    tmp_path_factory: pytest.TempPathFactory, order: list[int]
) -> None:
    store = make_store(tmp_path_factory)
    assert all(at_once(lambda k: enrol(store, "m", order[k]), len(order)))
    champion, challenger = aliases(store)
    assert champion in order
    assert challenger == max(set(order) - {champion})
