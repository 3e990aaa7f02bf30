"""Aliases of a model's versions: moved by compare-and-swap, by one of several who try at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
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
    """A store with versions 1 to 9 of the model m, as far as aliases care."""
    return make_store(tmp_path_factory)


def make_store(factory: pytest.TempPathFactory) -> Store:
    store = Store.open(factory.mktemp("store"))
    for version in range(1, 10):
        store.put_json(layout.model_card("m", version), {})
    return store


def aliases(store: Store) -> tuple[int | None, int | None]:
    return pointer(store, "m", "champion").version, pointer(store, "m", "challenger").version


def at_once(work: Callable[[int], None], count: int) -> list[bool]:
    """Do ``work`` in ``count`` threads at once; return which of them were not refused."""
    barrier, done = threading.Barrier(count), [False] * count

    def attempt(k: int) -> None:
        barrier.wait()
        try:
            work(k)
        except McvrpError:
            return
        done[k] = True

    threads = [threading.Thread(target=attempt, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return done


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


def test_a_challenger_that_becomes_champion_challenges_no_more(store: Store) -> None:
    """Nor after a rollback; a newer one challenges whoever is champion then."""
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


def test_a_version_that_is_not_the_newest_is_promoted_past_the_challenger(store: Store) -> None:
    """The challenger stays: it has not been champion."""
    for version in (1, 2, 3):
        enrol(store, "m", version)
    move_champion(store, "m", 2, pointer(store, "m", "champion"))
    assert aliases(store) == (2, 3)


def test_what_an_earlier_version_left_half_done_is_done(store: Store) -> None:
    """It moved the champion first, and the challenger by a second write, which a kill could prevent."""
    enrol(store, "m", 1)
    move_champion(store, "m", 2, pointer(store, "m", "champion"))
    move = {"version": 2, "when": "2026-01-01T00:00:00Z", "by": "somebody", "why": "published"}
    left = {"schema_version": 2, "version": 2, "history": [move]}
    store.put_json(layout.model_alias("m", "challenger"), left)
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
    """Killed amid any write, aliases are as before or as after, and what was not done can be done."""
    for version in (1, 2):
        enrol(store, "m", version)
    move_champion(store, "m", 2, pointer(store, "m", "champion"))
    enrol(store, "m", 3)
    for there, done in killed_at_each_write(store, tmp_path, WORK[work], at_least=1):
        assert aliases(there) == (after if done else (2, 3))
        if not done:
            WORK[work](there)
        assert aliases(there) == after


def test_who_looked_too_early_is_refused(store: Store) -> None:
    """A champion that changed during a comparison: said with both versions; a newer challenger may come."""
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


def test_an_alias_stands_for_a_version_that_is_there(store: Store) -> None:
    """Unknown versions are refused, and a document that is none is named."""
    with pytest.raises(McvrpError, match="no version 12 that could be its champion"):
        move_champion(store, "m", 12, Pointer(None))
    store.put(layout.model_alias("m", "champion"), b'{"version": "two"}')
    with pytest.raises(McvrpError, match=r"champion\.json is not a valid alias of a model"):
        pointer(store, "m", "champion")


def test_of_many_promotions_at_once_one_succeeds(store: Store) -> None:
    """All looked at the same champion; the others are told that it has changed."""
    enrol(store, "m", 1)
    seen = pointer(store, "m", "champion")
    done = at_once(lambda k: move_champion(store, "m", k + 2, seen), 8)
    assert sum(done) == 1
    assert pointer(store, "m", "champion").version == done.index(True) + 2


@settings(max_examples=10, deadline=None)
@given(order=st.permutations(range(1, 7)))
def test_enrolling_at_once_ends_with_the_newest_as_challenger(
    tmp_path_factory: pytest.TempPathFactory, order: list[int]
) -> None:
    """The first to come is champion; of the rest the newest is challenger, none is lost."""
    store = make_store(tmp_path_factory)
    assert all(at_once(lambda k: enrol(store, "m", order[k]), len(order)))
    champion, challenger = aliases(store)
    assert champion in order
    assert challenger == max(set(order) - {champion})
