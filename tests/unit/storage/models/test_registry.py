"""Champion and challenger of a model; concurrent moves are in tests/properties/test_interleavings.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.models.registry import Pointer, enrol, move_champion, pointer, roll_back
from mcvrp.storage.store.store import Store
from tests.support.killed import killed_at_each_write


def publish(store: Store, version: int) -> None:
    store.put_json(layout.model_card("m", version), {})
    enrol(store, "m", version)


def aliases(store: Store) -> tuple[int | None, int | None]:
    return pointer(store, "m", "champion").version, pointer(store, "m", "challenger").version


def test_the_first_version_is_champion_and_the_latest_challenges(store: Store) -> None:
    """A former champion does not, nor does it after a rollback."""
    assert aliases(store) == (None, None)
    for version, expected in ((1, (1, None)), (2, (1, 2)), (3, (1, 3)), (2, (1, 3))):
        publish(store, version)
        assert aliases(store) == expected
    move_champion(store, "m", 3, pointer(store, "m", "champion"))
    assert aliases(store) == (3, None)
    assert roll_back(store, "m") == (3, 1)
    assert aliases(store) == (1, None)
    publish(store, 4)
    assert aliases(store) == (1, 4)
    store.delete(layout.model_dir("m", 4))
    store.put(layout.model_config("m", 5), b"{}")  # not a version yet
    assert aliases(store) == (1, None)


WORK: dict[str, Callable[[Store], object]] = {
    "publish": lambda store: publish(store, 4),
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
    for version in (1, 2, 3):
        publish(store, version)
    move_champion(store, "m", 2, pointer(store, "m", "champion"))
    for copy, done in killed_at_each_write(store, tmp_path, WORK[work], at_least=1):
        assert aliases(copy) == (after if done else (2, 3))
        if not done:
            WORK[work](copy)
        assert aliases(copy) == after


def test_a_move_based_on_an_outdated_champion_is_refused(store: Store) -> None:
    """The error has both versions; a newer challenger is no conflict."""
    for version in (1, 2, 4, 5):
        publish(store, version)
    champion = pointer(store, "m", "champion")
    publish(store, 6)
    move_champion(store, "m", 5, champion)
    with pytest.raises(McvrpError, match="champion of model 'm' is version 5 now, it was version 1"):
        move_champion(store, "m", 2, champion)
    with pytest.raises(McvrpError, match="is version 5 now, it was no version"):
        move_champion(store, "m", 4, Pointer(None))
    assert aliases(store) == (5, 6)


def test_an_alias_points_to_an_existing_version(store: Store) -> None:
    """Unknown versions are refused, and a corrupt document is named."""
    with pytest.raises(McvrpError, match="no version 12 that could be its champion"):
        move_champion(store, "m", 12, Pointer(None))
    store.put(layout.champion_move("m", 1), b'{"version": "two"}')
    with pytest.raises(McvrpError, match=r"champion/000001\.json is not a valid move of a champion"):
        pointer(store, "m", "champion")
