"""Aliases of a model's versions: moved by compare-and-swap, by one of several who try at once."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from hypothesis import given, settings, strategies as st

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.models.registry import Pointer, enrol, point, pointer, promote
from mcvrp.storage.store.store import Store


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


def test_the_challenger_becomes_champion_once(store: Store) -> None:
    """Promotion moves both aliases; without a challenger there is nothing to promote."""
    for version in (1, 2):
        enrol(store, "m", version)
    promote(store, "m", pointer(store, "m", "champion"), pointer(store, "m", "challenger"))
    assert aliases(store) == (2, None)
    with pytest.raises(McvrpError, match="no challenger to promote"):
        promote(store, "m", pointer(store, "m", "champion"), pointer(store, "m", "challenger"))
    assert enrol(store, "m", 3) == "challenger"


def test_who_looked_too_early_is_refused(store: Store) -> None:
    """A champion or challenger that changed during a comparison: said with both versions."""
    enrol(store, "m", 1)
    enrol(store, "m", 2)
    champion, challenger = pointer(store, "m", "champion"), pointer(store, "m", "challenger")
    enrol(store, "m", 3)
    with pytest.raises(McvrpError, match="challenger of model 'm' is version 3 now, it was version 2"):
        promote(store, "m", champion, challenger)
    point(store, "m", "champion", 5, champion)
    with pytest.raises(McvrpError, match="champion of model 'm' is version 5 now, it was version 1"):
        promote(store, "m", champion, pointer(store, "m", "challenger"))
    with pytest.raises(McvrpError, match="is version 5 now, it was no version"):
        point(store, "m", "champion", 4, Pointer(None))
    assert aliases(store) == (5, 3)


def test_an_alias_stands_for_a_version_that_is_there(store: Store) -> None:
    """Unknown versions are refused, and a document that is none is named."""
    with pytest.raises(McvrpError, match="no version 12 that could be its champion"):
        point(store, "m", "champion", 12, Pointer(None))
    store.put(layout.model_alias("m", "champion"), b'{"version": "two"}')
    with pytest.raises(McvrpError, match=r"champion\.json is no alias of a model"):
        pointer(store, "m", "champion")


def test_of_many_promotions_at_once_one_succeeds(store: Store) -> None:
    """All looked at the same champion; the others are told that it has changed."""
    enrol(store, "m", 1)
    seen = pointer(store, "m", "champion")
    done = at_once(lambda k: point(store, "m", "champion", k + 2, seen), 8)
    assert sum(done) == 1
    assert pointer(store, "m", "champion").version == done.index(True) + 2


@settings(max_examples=10, deadline=None)
@given(order=st.permutations(range(1, 7)))
def test_enrolling_at_once_ends_with_the_newest_as_challenger(
    tmp_path_factory: pytest.TempPathFactory, order: list[int]
) -> None:
    """Whoever comes first is champion; of the rest the newest is challenger, none is lost."""
    store = make_store(tmp_path_factory)
    assert all(at_once(lambda k: enrol(store, "m", order[k]), len(order)))
    champion, challenger = aliases(store)
    assert champion in order
    assert challenger == max(set(order) - {champion})
