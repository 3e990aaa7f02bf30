"""Removal of a driven day: with what was made from it, and what is right is read by the next night."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.driven import driven_days, read_day, receipts
from mcvrp.storage.store.store import Store
from mcvrp.storage.trials import TrialRecord, write_record
from mcvrp.tasks.driven.remove import remove_day
from tests.support.datasets import everything
from tests.support.killed import killed_at_each_write
from tests.unit.tasks.driven.test_intake import FRIDAY, HEADER, A, B, is_whole, take

RIGHT = HEADER + A + f"{FRIDAY},b,1,C2,2,10\n{FRIDAY},c,1,C3,2,10\n"
SATURDAY = "2026-02-28,a,1,C1,4,10\n"


@pytest.fixture
def wrong(store: Store) -> Store:
    """A store with a wrong Friday, from a file with another day, and the night that has learned from it."""
    store.put("incoming/a-wrong.csv", (HEADER + A + B + SATURDAY).encode())
    days = tuple(day.name for day in take(store).stored)
    for number, names in enumerate((days[1:], days), start=1):
        record = TrialRecord(f"night-{number:012}", number, number, number + 1, "d", True, (), days=names)
        write_record(store, "small", record)
        store.put(layout.label_file(record.name, 20, 0, 6), b"labels")
    return store


def routes(store: Store) -> int:
    return len(read_day(store, "lyon", FRIDAY).solution.routes)


@pytest.mark.parametrize("name", ["a-wrong.csv", "b-right.csv"])
def test_the_right_file_is_read_after_the_removal(wrong: Store, name: str) -> None:
    """Whether it replaces the wrong one or is put beside it; other days of both stay."""
    wrong.put(f"incoming/{name}", (RIGHT + SATURDAY).encode())
    assert not is_whole(wrong)
    assert routes(wrong) == 2
    removed = remove_day(wrong, "lyon", FRIDAY, "small")
    assert [day.date for day in driven_days(wrong, "lyon")] == [datetime.date(2026, 2, 28)]
    assert (removed.date, removed.files) == ("2026-02-27", ("a-wrong.csv",))
    taken = take(wrong)
    assert (taken.days, taken.lacks("")) == (["2026-02-27"], "")
    assert routes(wrong) == 3
    assert is_whole(wrong)


def test_labels_of_the_day_go_with_it(wrong: Store) -> None:
    """Those of nights that did not learn from it stay, and so do records of all."""
    removed = remove_day(wrong, "lyon", FRIDAY, "small")
    assert [(model, record.number) for model, record in removed.nights] == [("small", 2)]
    assert wrong.list("labels") == [layout.label_file("night-000000000001", 20, 0, 6)]
    assert len(wrong.list("nights")) == 2


def test_a_day_without_another_file_stays_removed(wrong: Store) -> None:
    """Until the content of its file changes; the card does not list it."""
    remove_day(wrong, "lyon", FRIDAY, "small")
    assert is_whole(wrong)
    assert "| days | 1, 2026-02-28 to 2026-02-28 |" in wrong.get(layout.driven_card("lyon")).decode()
    wrong.put("incoming/copy.csv", wrong.get("incoming/a-wrong.csv"))
    assert is_whole(wrong)
    wrong.put("incoming/copy.csv", wrong.get("incoming/a-wrong.csv") + b"\n")
    assert take(wrong).days == ["2026-02-27"]


def test_rows_of_a_removed_day_are_no_longer_open(store: Store) -> None:
    """Those of other days are, and of files that are still there."""
    open_rows = f"{FRIDAY},b,1,C99,2,10\n2026-02-28,a,1,C99,4,10\n"
    store.put("incoming/two.csv", (HEADER + A + open_rows).encode())
    store.put("incoming/one.csv", f"{HEADER}2026-02-26,b,1,C99,2,10\n".encode())
    take(store)
    remove_day(store, "lyon", FRIDAY, "small")
    assert take(store).partial == {"2026-02-26", "2026-02-28"}
    remove_day(store, "lyon", datetime.date(2026, 2, 26), "small")
    assert take(store).partial == {"2026-02-26", "2026-02-28"}
    store.delete("incoming/one.csv")
    assert take(store).partial == {"2026-02-26", "2026-02-28"}
    remove_day(store, "lyon", datetime.date(2026, 2, 26), "small")
    assert take(store).partial == {"2026-02-28"}


def test_an_unknown_day_is_refused(wrong: Store) -> None:
    before = everything(wrong)
    for city, day in (("lyon", 20), ("paris", 27)):
        with pytest.raises(McvrpError, match=f"city '{city}' has no driven day 2026-02-{day} in"):
            remove_day(wrong, city, datetime.date(2026, 2, day), "small")
    assert everything(wrong) == before


def test_a_killed_removal_is_completed_by_the_next(wrong: Store, tmp_path: Path) -> None:
    wrong.put("incoming/b-right.csv", RIGHT.encode())
    take(wrong)
    ends = []
    for there, _ in killed_at_each_write(
        wrong,
        tmp_path.with_name(f"{tmp_path.name}-killed"),
        lambda s: remove_day(s, "lyon", FRIDAY, "small"),
        at_least=5,
    ):
        if there.list(layout.driven_day("lyon", str(FRIDAY))):
            remove_day(there, "lyon", FRIDAY, "small")
        take(there)
        left = [path for path in everything(there) if path.startswith(("driven/lyon/", "labels/"))]
        ends.append({path: there.get(path) for path in left if "/." not in path})
        assert routes(there) == 3
        assert {each.name: each.removed for each in receipts(there, "lyon")} == {
            "a-wrong.csv": ("2026-02-27",),
            "b-right.csv": (),
        }
    assert all(end == ends[-1] for end in ends)
