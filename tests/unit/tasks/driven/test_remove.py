"""Removal of a driven day: with what was made from it, and the next night reads the right file."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.driven import driven_days
from mcvrp.storage.store.store import Store
from mcvrp.storage.trials import TrialRecord, write_record
from mcvrp.tasks.driven.remove import RemovedDay, remove_day
from tests.support.datasets import everything
from tests.support.killed import killed_at_each_write
from tests.support.labels import driven_label
from tests.unit.tasks.driven.test_take import BROKEN, FRIDAY, GOOD, HEADER, SATURDAY, WHOLE, take

RIGHT = GOOD.replace("b,1,C3", "b,1,C5")
NEXT = WHOLE.removeprefix(f"{HEADER}\n")


def remove(store: Store, day: str = FRIDAY, city: str = "lyon") -> RemovedDay:
    return remove_day(store, city, datetime.date.fromisoformat(day), "small", "incoming")


@pytest.fixture
def wrong(store: Store) -> Store:
    """A store with a wrong Friday, from a file with another day, and the night that has learned from it."""
    store.put("incoming/a-wrong.csv", (GOOD + NEXT).encode())
    days = tuple(day.name for day in take(store).stored)
    for number, names in enumerate((days[1:], days), start=1):
        record = TrialRecord(f"night-{number:012}", number, number, number + 1, "d", True, (), days=names)
        write_record(store, "small", record)
        store.put(layout.label_file(record.name, 20, 0, 6), b"labels")
    return store


@pytest.mark.parametrize("name", ["a-wrong.csv", "b-right.csv"])
def test_the_right_file_is_read_after_the_removal(wrong: Store, name: str) -> None:
    """Whether it replaces the wrong one or is put beside it; until then the night refuses it."""
    wrong.put(f"incoming/{name}", (RIGHT + NEXT).encode())
    assert len(take(wrong).refused) == 1
    if name != "a-wrong.csv":
        with pytest.raises(McvrpError, match=r"incoming/a-wrong.csv has routes of 2026-02-27"):
            remove(wrong)
        wrong.delete("incoming/a-wrong.csv")
    removed = remove(wrong)
    assert [day.date.isoformat() for day in driven_days(wrong, "lyon")] == [SATURDAY]
    assert removed.date == FRIDAY
    taken = take(wrong)
    assert (taken.days, taken.refused) == ((FRIDAY,), [])
    assert 5 in driven_label(wrong, "lyon", FRIDAY).instance.ids


def test_labels_of_the_day_go_with_it(wrong: Store) -> None:
    """Those of nights that did not learn from it stay, and all records; the card is of what is left."""
    wrong.delete("incoming/a-wrong.csv")
    assert [(model, record.number) for model, record in remove(wrong).nights] == [("small", 2)]
    assert wrong.list("labels") == [layout.label_file("night-000000000001", 20, 0, 6)]
    assert len(wrong.list("nights")) == 2
    assert "| days | 1, 2026-02-28 to 2026-02-28 |" in wrong.get(layout.driven_card("lyon")).decode()


def test_a_refused_file_is_no_reason_to_keep_a_day(wrong: Store) -> None:
    """Only those whose routes were taken would bring the wrong day back."""
    wrong.put("incoming/a-wrong.csv", (GOOD + BROKEN.removeprefix(f"{HEADER}\n")).encode())
    assert len(take(wrong).refused) == 1
    assert remove(wrong).date == FRIDAY


def test_an_unknown_day_is_refused(wrong: Store) -> None:
    before = everything(wrong)
    for city, day in (("lyon", 20), ("paris", 27)):
        with pytest.raises(McvrpError, match=f"city '{city}' has no driven day 2026-02-{day} in"):
            remove(wrong, f"2026-02-{day}", city)
    assert everything(wrong) == before


def test_a_killed_removal_is_completed_by_the_next(wrong: Store, tmp_path: Path) -> None:
    wrong.put("incoming/a-wrong.csv", (RIGHT + NEXT).encode())
    ends = []
    for there, _ in killed_at_each_write(
        wrong, tmp_path.with_name(f"{tmp_path.name}-killed"), remove, at_least=4
    ):
        if there.exists(layout.driven_day("lyon", FRIDAY)):
            remove(there)
        assert take(there).days == (FRIDAY,)
        left = [path for path in everything(there) if path.startswith(("driven/lyon/", "labels/"))]
        ends.append({path: there.get(path) for path in left if "/." not in path})
    assert all(end == ends[-1] for end in ends)
