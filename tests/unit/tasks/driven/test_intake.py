"""Rows in quarantine: open until they are corrected, however that is done, and no longer."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mcvrp.model.canonical_form import canonical
from mcvrp.model.problem import City, Solution
from mcvrp.storage import layout
from mcvrp.storage.cities import Addresses, StoredCity
from mcvrp.storage.driven import IntakeReceipt, read_day, receipts
from mcvrp.storage.store.store import Store
from mcvrp.tasks.driven.remove import remove_day
from mcvrp.tasks.driven.take import Taken, take_routes
from tests.support.datasets import everything
from tests.support.killed import killed_at_each_write

CITY = City.uniform(12, seed=1)
LYON = StoredCity("lyon", CITY, Addresses(("depot", *(f"C{node}" for node in range(1, 13)))), "imported")
TODAY, FRIDAY = datetime.date(2026, 3, 1), datetime.date(2026, 2, 27)
HEADER = "date,route,stop,customer,demand,capacity\n"
A, B = f"{FRIDAY},a,1,C1,4,10\n", f"{FRIDAY},b,1,C2,2,10\n{FRIDAY},b,2,C3,2,10\n"
BROKEN = HEADER + A + B.replace("C2", "C99")


def take(store: Store, city: StoredCity = LYON) -> Taken:
    return take_routes(store, city, today=TODAY)


def receipt(store: Store, name: str) -> IntakeReceipt:
    return next(each for each in receipts(store, "lyon") if each.name == name)


@pytest.fixture
def broken(store: Store) -> Store:
    """A store whose night has put a route of two rows into quarantine."""
    store.put("incoming/friday.csv", BROKEN.encode())
    assert take(store).partial == {"2026-02-27"}
    return store


def is_whole(store: Store) -> bool:
    """Return whether the next night finds nothing to complain about, and no row in quarantine."""
    taken = take(store)
    assert (taken.partial == set()) == (taken.lacks("") == "")
    assert (store.list(layout.quarantine_dir("lyon")) == []) == (taken.partial == set())
    again = everything(store)
    take(store)
    assert everything(store) == again
    return not taken.partial


def test_rows_stay_in_quarantine_until_they_are_corrected(broken: Store) -> None:
    before = everything(broken)
    first, second = take(broken), take(broken)
    assert first.lacks("q") == second.lacks("q")
    assert "friday.csv: 2 rows of 2026-02-27 are in quarantine: row 3: customer 'C99' is" in first.lacks("q")
    assert (first.receipts, first.known, first.days) == ((), 1, [])
    assert everything(broken) == before


@pytest.mark.parametrize("name", ["friday.csv", "other.csv"])
def test_rows_are_corrected_in_the_file_or_in_another_one(broken: Store, name: str) -> None:
    """The receipt tells them from open ones; the day is that of a file without an error."""
    broken.put(f"incoming/{name}", BROKEN.replace("C99", "C2").encode())
    assert is_whole(broken)
    counts = {(each.quarantined, each.corrected) for each in receipts(broken, "lyon")}
    assert counts == {(0, 2), (0, 0)}
    assert read_day(broken, "lyon", FRIDAY).solution == canonical(CITY, Solution.of([[1], [2, 3]]))
    assert (
        "| rows in quarantine | 0 |\n| rows that were in quarantine, corrected | 2 |"
        in broken.get(layout.driven_card("lyon")).decode()
    )


def test_rows_are_corrected_by_the_quarantine_itself(broken: Store) -> None:
    (path,) = broken.list(layout.quarantine_dir("lyon"))
    broken.put("incoming/corrected.csv", broken.get(path).replace(b"C99", b"C2"))
    assert is_whole(broken)


def test_rows_that_are_removed_from_the_file_are_no_longer_open(broken: Store) -> None:
    """This confirms that the rest is the day."""
    broken.put("incoming/friday.csv", (HEADER + A).encode())
    assert is_whole(broken)
    assert read_day(broken, "lyon", FRIDAY).solution.routes == ((1,),)


def test_a_file_that_is_gone_or_replaced_by_another_day_corrects_nothing(broken: Store) -> None:
    """Exports may be archived, or always have the same name: the day still lacks a route."""
    saturday = (HEADER + A + B).replace("2026-02-27", "2026-02-28")
    broken.put("incoming/friday.csv", saturday.encode())
    assert not is_whole(broken)
    broken.delete("incoming/friday.csv")
    taken = take(broken)
    assert taken.partial == {"2026-02-27"}
    (line,) = taken.lacks("q").splitlines()
    assert line.startswith("friday.csv: 2 rows of 2026-02-27 are in quarantine: submit q/friday-")
    broken.put("incoming/archive/friday.csv", BROKEN.replace("C99", "C2").encode())
    assert is_whole(broken)


def test_a_renamed_file_is_the_same(broken: Store) -> None:
    broken.put("incoming/b/renamed.csv", broken.get("incoming/friday.csv"))
    broken.delete("incoming/friday.csv")
    assert not is_whole(broken)
    assert [(each.name, each.quarantined) for each in receipts(broken, "lyon")] == [("b/renamed.csv", 2)]
    (path,) = broken.list(layout.quarantine_dir("lyon"))
    assert "renamed" in path


def test_one_content_under_two_names_is_reported_once(broken: Store) -> None:
    broken.put("incoming/again.csv", broken.get("incoming/friday.csv"))
    taken = take(broken)
    assert (len(taken.quarantined), taken.known) == (1, 2)
    broken.put("incoming/zz.csv", BROKEN.replace("C99", "C2").encode())
    assert is_whole(broken)


def test_an_address_that_the_city_lacked_corrects_the_rows(broken: Store) -> None:
    """The file is read again, and its day becomes a new one to learn from."""
    grown = replace(CITY, xy=np.vstack([CITY.xy, [[0.1, 0.2]]]), extends=(12,))
    extended = StoredCity("lyon", grown, LYON.addresses.extended(["C99"], None), "imported")
    before = take(broken).stored
    taken = take(broken, extended)
    assert (taken.days, taken.partial) == (["2026-02-27"], set())
    assert taken.stored[0].name != before[0].name
    assert read_day(broken, "lyon", FRIDAY).solution == canonical(grown, Solution.of([[1], [13, 3]]))
    assert take(broken, extended).known == 1


def test_other_routes_of_the_day_correct_nothing(broken: Store) -> None:
    """A file per vehicle is the rule for some: routes of other customers are added."""
    broken.put("incoming/south.csv", f"{HEADER}{FRIDAY},b,1,C5,1,10\n".encode())
    assert not is_whole(broken)
    assert read_day(broken, "lyon", FRIDAY).solution.routes == ((1,), (5,))


def test_a_correction_with_an_error_of_its_own_is_not_passed_over(store: Store) -> None:
    """Though the day serves its customers: by the wrong file that came first."""
    store.put("incoming/friday.csv", (HEADER + A + B).encode())
    assert is_whole(store)
    exchanged = f"{FRIDAY},b,1,C3,2,10\n{FRIDAY},b,2,C2,2,ten\n"
    store.put("incoming/later.csv", (HEADER + A + exchanged).encode())
    assert not is_whole(store)
    assert "capacity 'ten' is not a whole number" in take(store).lacks("")
    store.delete("incoming/later.csv")
    assert is_whole(store)


def test_a_file_that_contradicts_the_day_is_named_until_it_is_gone(store: Store) -> None:
    """Its other days are ingested."""
    store.put("incoming/friday.csv", (HEADER + A + B).encode())
    take(store)
    other = f"{FRIDAY},b,1,C3,2,10\n{FRIDAY},c,1,C2,2,10\n2026-02-28,a,1,C1,1,10\n"
    store.put("incoming/later.csv", (HEADER + A + other).encode())
    taken = take(store)
    assert (taken.days, taken.partial) == (["2026-02-28"], {"2026-02-27"})
    for _ in range(2):
        (line,) = take(store).lacks("").splitlines()
        assert (
            "row 3: customer 'C3' is on another route of 2026-02-27, which was read from friday.csv" in line
        )
        assert "run mcvrp driven remove 2026-02-27 --city lyon" in line
    store.delete("incoming/later.csv")
    assert is_whole(store)


@pytest.mark.parametrize("lines", [A + B.replace("C2", "C5").replace("C3", "C6"), A])
def test_a_new_version_of_a_file_that_lacks_a_route_contradicts_its_day(store: Store, lines: str) -> None:
    """Otherwise wrong customers would stay in the day, beside those that replace them."""
    store.put("incoming/friday.csv", (HEADER + A + B).encode())
    take(store)
    store.put("incoming/friday.csv", (HEADER + lines).encode())
    taken = take(store)
    assert (taken.days, taken.partial) == ([], {"2026-02-27"})
    why = (
        "row 2, customer 'C1': the file lacks a route of 2026-02-27, which was read from friday.csv: if this"
    )
    assert why in taken.lacks("")
    assert not is_whole(store)
    remove_day(store, "lyon", FRIDAY, "small")
    assert is_whole(store)
    assert len(read_day(store, "lyon", FRIDAY).solution.routes) == 1 + (lines != A)
    assert 2 not in read_day(store, "lyon", FRIDAY).instance.ids


def test_a_new_version_of_a_file_may_have_more_routes(store: Store) -> None:
    """An export grows, and a route that was rejected is corrected."""
    store.put("incoming/friday.csv", (HEADER + A).encode())
    take(store)
    store.put("incoming/friday.csv", (HEADER + A + B).encode())
    assert take(store).days == ["2026-02-27"]
    assert is_whole(store)


def test_a_file_that_is_unreadable_for_a_night_corrects_nothing(broken: Store) -> None:
    """Half an upload over the old file: its rows are still open."""
    broken.put("incoming/friday.csv", b"date\n")
    taken = take(broken)
    assert (len(taken.refused), taken.partial) == (1, {"2026-02-27"})


@pytest.mark.parametrize("name", ["friday.csv", "more.csv"])
def test_a_killed_night_is_completed_by_the_next(broken: Store, tmp_path: Path, name: str) -> None:
    """Rows are corrected, others come into quarantine: killed at any write, the end is the same."""
    broken.put(f"incoming/{name}", (BROKEN.replace("C99", "C2") + f"{FRIDAY},c,1,C98,1,10\n").encode())
    broken.put("incoming/zz.csv", (HEADER + f"{FRIDAY},c,1,C98,1,10\n{FRIDAY},d,1,C5,1,10\n").encode())
    ends = []
    folder = tmp_path.with_name(f"{tmp_path.name}-killed")
    for there, _ in killed_at_each_write(broken, folder, take, at_least=9):
        assert take(there).partial == {"2026-02-27"}
        files = everything(there).items()
        ends.append({path: data for path, data in files if not path.rpartition("/")[2].startswith(".")})
    assert all(end == ends[-1] for end in ends)
    counts = {each.name: (each.quarantined, each.corrected) for each in receipts(there, "lyon")}
    assert counts["zz.csv"] == (1, 0)
