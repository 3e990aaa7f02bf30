"""Ingestion of files of driven routes: whole or not at all, and nothing is lost."""

from __future__ import annotations

import datetime
import errno
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mcvrp.model.canonical_form import canonical
from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City, Solution, cost
from mcvrp.storage import layout
from mcvrp.storage.cities import Addresses, StoredCity, save_city
from mcvrp.storage.driven import checksum, driven_days
from mcvrp.storage.store.store import Store
from mcvrp.tasks.driven.take import Taken, take_routes
from mcvrp.tasks.files.file_bytes import MOST_BYTES
from tests.support.datasets import everything
from tests.support.killed import Request, killed_at_each_write, serve_all
from tests.support.labels import driven_label
from tests.support.workbook import DAY, with_cell, xlsx

CITY = City.uniform(12, seed=1)
LYON = StoredCity("lyon", CITY, Addresses(("depot", *(f"C{node}" for node in range(1, 13)))), "imported")
TODAY = datetime.date(2026, 3, 1)
FRIDAY, SATURDAY = "2026-02-27", "2026-02-28"
HEADER = "date,route,stop,customer,demand,capacity"
GOOD = f"{HEADER}\n2026-02-27,a,1,C1,4,10\n2026-02-27,a,2,C2,6,10\n2026-02-27,b,1,C3,2,10\n"
STOPS = (("a", 1, "C1", 4), ("a", 2, "C2", 6), ("b", 1, "C3", 2))
BROKEN = f"{HEADER}\n2026-02-28,a,1,C4,4,10\n2026-02-28,b,1,C99,4,10\n"
WHOLE = BROKEN.replace("C99", "C9")


def take(store: Store, city: StoredCity = LYON, **options: Any) -> Taken:
    return take_routes(store, city, today=TODAY, **options)[0]


SHEET = [HEADER.split(","), *([(DAY, 46080), r, s, c, d, 10] for r, s, c, d in STOPS)]


@pytest.mark.parametrize(
    ("name", "data"), [("friday.csv", GOOD.encode()), ("friday.xlsx", xlsx({"Routes": SHEET}))]
)
def test_a_file_becomes_a_day(store: Store, name: str, data: bytes) -> None:
    """Orders and routes as driven, at the city's cost."""
    store.put(f"incoming/{name}", data)
    taken = take(store)
    assert (taken.files, taken.days, taken.refused) == ((f"incoming/{name}",), (FRIDAY,), ())
    label = driven_label(store, "lyon", FRIDAY)
    assert label.solution == canonical(CITY, Solution.of([[1, 2], [3]]))
    assert label.cost == cost(CITY, label.solution)
    assert label.source == "driven"


def test_columns_have_the_names_of_the_city(store: Store) -> None:
    """Also beside another column named customer, or with our names alone; depots are left out."""
    columns = {"id": "Code client", "demand": "Colis"}
    city = replace(LYON, addresses=replace(LYON.addresses, columns=columns))
    own = "date,route,stop,code client,colis,capacity,customer\n"
    rows = GOOD.removeprefix(f"{HEADER}\n").replace(",10\n", ",10,Shop\n")
    depots = "2026-02-27,a,0,depot,0,10,\n2026-02-27,a,3,depot,,10,\n"
    store.put("incoming/friday.csv", f"{own}{depots}{rows}".encode())
    store.put("incoming/saturday.csv", GOOD.replace("02-27", "02-28").encode())
    assert take(store, city).refused == ()
    labels = [driven_label(store, "lyon", date) for date in (FRIDAY, SATURDAY)]
    assert labels[0].solution == labels[1].solution == canonical(CITY, Solution.of([[1, 2], [3]]))
    refused = f"{own.replace('code client', 'code')}{rows}".replace(",customer\n", ",name\n")
    store.put("incoming/x.csv", refused.encode())
    store.put("incoming/y.csv", f"{HEADER}\n2026-02-26,c,1,depot,4,10\n".encode())
    store.put("incoming/z.csv", f"{HEADER}\n2026-02-26,c,0,depot,0,10\n".encode())
    column, depot, nothing = take(store, city).refused
    assert "no column customer" in column
    assert "row 2: customer 'depot' is the depot: list only customers" in depot
    assert "z.csv has no customers" in nothing


def test_a_hidden_file_is_not_ingested(store: Store) -> None:
    store.put("incoming/.tour.csv", GOOD.encode())
    assert take(store) == Taken(store.url("incoming"))


def test_a_folder_that_is_named_exists(store: Store) -> None:
    """Without files a mistyped one would look like a night without routes."""
    store.put("incoming/lyon/friday.csv", GOOD.encode())
    with pytest.raises(McvrpError, match=r"no folder 'incoming/lion' in "):
        take(store, incoming="incoming/lion")
    assert take(store, incoming="incoming/lyon/").days == (FRIDAY,)
    store.delete("incoming/lyon/friday.csv")
    Path(store.uri, "incoming/lyon").mkdir(parents=True, exist_ok=True)
    assert take(store, incoming="incoming/lyon").files == ()


def test_a_file_is_taken_once_whatever_it_is_called(store: Store) -> None:
    """Its days are known, also if the note of the files that were read is lost."""
    store.put("incoming/friday.csv", GOOD.encode())
    take(store)
    before = everything(store)
    assert (take(store).files, take(store).known) == ((), 1)
    assert everything(store) == before
    store.put("incoming/again.csv", GOOD.encode())
    assert (take(store).files, take(store).known) == ((), 2)
    store.delete(layout.driven_taken("lyon"))
    assert (take(store).files, take(store).known) == ((), 2)


def test_a_refused_file_adds_nothing_until_it_is_corrected(store: Store) -> None:
    """Neither its valid routes nor its valid days; it is named by each night, and stays as it is."""
    store.put("incoming/friday.csv", GOOD.encode())
    rows = GOOD.removeprefix(f"{HEADER}\n").replace("02-27", "02-26")
    store.put("incoming/saturday.csv", (BROKEN + rows).encode())
    for _ in range(2):
        taken = take(store)
        (refused,) = taken.refused
        assert refused.startswith("incoming/saturday.csv: row 3: customer 'C99' is not in")
        assert [day.date.isoformat() for day in driven_days(store, "lyon")] == [FRIDAY]
    store.put("incoming/saturday.csv", (WHOLE + rows).encode())
    taken = take(store)
    assert (taken.days, taken.refused) == (("2026-02-26", SATURDAY), ())


def test_an_address_that_the_city_lacked_makes_a_file_valid(store: Store) -> None:
    store.put("incoming/saturday.csv", BROKEN.encode())
    assert take(store).days == ()
    grown = replace(CITY, xy=np.vstack([CITY.xy, [[0.1, 0.2]]]), extends=(12,))
    extended = StoredCity("lyon", grown, LYON.addresses.extended(["C99"], None), "imported")
    assert take(store, extended).days == (SATURDAY,)
    assert driven_label(store, "lyon", SATURDAY).solution == canonical(grown, Solution.of([[4], [13]]))


OTHER_DAYS = {
    "another demand": GOOD.replace("C3,2", "C3,3"),
    "another capacity": GOOD.replace(",10\n", ",12\n"),
    "stops exchanged": GOOD.replace("1,C1,4", "1,C4,4"),
    "one route of it": GOOD[: GOOD.index("2026-02-27,b")],
    "another route": f"{HEADER}\n2026-02-27,c,1,C5,4,10\n",
}


@pytest.mark.parametrize("text", OTHER_DAYS.values(), ids=OTHER_DAYS)
def test_a_file_that_contradicts_a_day_is_refused(store: Store, text: str) -> None:
    """Beside the file that was taken first, which it names, and in its place; also its other days."""
    store.put("incoming/friday.csv", GOOD.encode())
    take(store)
    store.put("incoming/later.csv", (text + WHOLE.removeprefix(f"{HEADER}\n")).encode())
    taken = take(store)
    (refused,) = taken.refused
    assert "its routes of 2026-02-27 are not those of incoming/friday.csv" in refused
    assert f"remove {store.url(layout.driven_day('lyon', FRIDAY))}" in refused
    assert taken.days == ()
    store.put("incoming/friday.csv", store.get("incoming/later.csv"))
    assert ["those of an earlier version of it" in each for each in take(store).refused] == [True, True]
    store.delete(layout.driven_day("lyon", FRIDAY))
    assert take(store).days == (FRIDAY, SATURDAY)


def test_days_that_are_known_may_come_again_with_others(store: Store) -> None:
    """An export grows by a day; a route in the other direction is the same where costs are symmetric."""
    store.put("incoming/export.csv", GOOD.encode())
    take(store)
    back = GOOD.replace("a,1,C1,4", "a,2,C1,4").replace("a,2,C2,6", "a,1,C2,6")
    store.put("incoming/export.csv", (back + WHOLE.removeprefix(f"{HEADER}\n")).encode())
    taken = take(store)
    assert (taken.files, taken.days, taken.refused) == (("incoming/export.csv",), (SATURDAY,), ())


def test_a_killed_call_is_completed_by_the_next(store: Store, tmp_path: Path) -> None:
    store.put("incoming/a.csv", (GOOD + WHOLE.removeprefix(f"{HEADER}\n")).encode())
    store.put("incoming/b.csv", GOOD.replace("02-27", "02-26").encode())
    ends = []
    folder = tmp_path.with_name(f"{tmp_path.name}-killed")
    for there, _ in killed_at_each_write(store, folder, take, at_least=4):
        take(there)
        assert len(driven_days(there, "lyon")) == 3
        ends.append({path: data for path, data in everything(there).items() if "/." not in path})
    assert all(end == ends[-1] for end in ends)


def test_a_file_that_is_no_table_is_named(store: Store) -> None:
    """A day that was saved as text would be missed without a word."""
    store.put("incoming/day.txt", b"1")
    (refused,) = take(store).refused
    assert refused.startswith("incoming/day.txt: its name ends with none of .csv, .parquet")


def _large(store: Store, _: pytest.MonkeyPatch) -> None:
    os.truncate(Path(store.uri, "incoming/a.csv"), MOST_BYTES + 1)  # without content


def _denied(store: Store, patch: pytest.MonkeyPatch) -> None:
    def serve(verb: str, path: str, request: Request) -> Any:
        if verb == "read" and path.endswith("a.csv"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return request()

    serve_all(patch, serve)


def _vanishing(store: Store, patch: pytest.MonkeyPatch) -> None:
    size = Store.size

    def gone(self: Store, path: str) -> int:
        self.delete("incoming/a.csv")
        return size(self, path)

    patch.setattr(Store, "size", gone)


def _columns(store: Store, _: pytest.MonkeyPatch) -> None:
    store.put("incoming/a.csv", b"day,halt\n1,2\n")


def _far_cell(store: Store, _: pytest.MonkeyPatch) -> None:
    """A workbook that crashes its reader."""
    store.put("incoming/a.csv", with_cell(xlsx({"Routes": SHEET}), '<c r="XFD1048576"><v>1</v></c>'))


@pytest.mark.parametrize(
    ("lay", "part"),
    [
        (_large, "has 200,000,001 bytes, more than 200,000,000: split it"),
        (_denied, "incoming/a.csv"),
        (_vanishing, "incoming/a.csv"),
        (
            _columns,
            "incoming/a.csv has no column date, route, customer, stop, demand, capacity (columns: day",
        ),
        (_far_cell, "far from the table"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_and_the_others_are_ingested(
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    lay: Callable[[Store, pytest.MonkeyPatch], None],
    part: str,
) -> None:
    for name, data in (("a.csv", WHOLE), ("friday.csv", GOOD)):
        store.put(f"incoming/{name}", data.encode())
    lay(store, monkeypatch)
    taken = take(store)
    assert taken.days == (FRIDAY,)
    (refused,) = taken.refused
    assert refused.count("a.csv") == 1
    assert part in refused


def test_a_file_of_tomorrow_is_taken_when_its_day_has_come(store: Store) -> None:
    store.put("incoming/week.csv", (GOOD + "2026-03-03,a,1,C9,4,10\n").encode())
    taken = take(store)
    assert "week.csv: row 5: date '2026-03-03' is in the future" in taken.refused[0]
    assert taken.days == ()
    later, _ = take_routes(store, LYON, today=TODAY + datetime.timedelta(days=2))
    assert later.days == ("2026-02-27", "2026-03-03")


def test_the_source_of_a_day_is_what_was_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is replaced during its ingestion is read once: days and checksum are of the same bytes."""
    store.put("incoming/friday.csv", GOOD.encode())
    get = Store.get

    def replaced(self: Store, path: str) -> bytes:
        data = get(self, path)
        if path == "incoming/friday.csv":
            self.put(path, WHOLE.encode())
        return data

    monkeypatch.setattr(Store, "get", replaced)
    take(store)
    (day,) = driven_days(store, "lyon")
    assert (day.date.isoformat(), day.source) == (FRIDAY, checksum(GOOD.encode()))


def test_a_day_under_the_name_of_another_is_refused(store: Store) -> None:
    store.put("incoming/friday.csv", GOOD.encode())
    take(store)
    friday, other = (layout.driven_day("lyon", date) for date in (FRIDAY, "2026-02-19"))
    store.put(other, store.get(friday))
    with pytest.raises(McvrpError, match=rf"{other} has another day than its name says: remove it"):
        driven_days(store, "lyon")
    store.delete(other)
    assert len(driven_days(store, "lyon")) == 1


FRENCH = "Datum;Tournée;Arrêt;Code;demand;Capacité\n02/01/2026;1;1;C3;4;40\n02/01/2026;1;2;C8;2;40\n"
NAMES = {"date": "Datum", "route": "Tournée", "stop": "Arrêt", "id": "Code", "capacity": "Capacité"}


@pytest.mark.parametrize("spreadsheet", [False, True])
def test_a_refused_file_is_read_once_its_columns_and_dates_are_declared(
    store: Store, spreadsheet: bool
) -> None:
    """The file stays as it is: what was wrong are the settings, which its errors name."""
    cells = [line.split(";") for line in FRENCH.splitlines()]
    name, data = ("f.xlsx", xlsx({"Routes": cells})) if spreadsheet else ("f.csv", FRENCH.encode())
    store.put(f"incoming/{name}", data)
    (refused,) = take(store).refused
    assert "no column date, route, customer, stop, capacity (columns: Datum" in refused
    assert "mcvrp city set lyon --columns date=NAME" in refused
    city = replace(LYON, addresses=replace(LYON.addresses, columns=NAMES))
    before = everything(store)
    (refused,) = take(store, city).refused
    assert "date '02/01/2026' in row 2 may have day or month first" in refused
    assert "(mcvrp city set lyon --dates day-first|month-first)" in refused
    assert everything(store) == before
    ordered = replace(city, addresses=replace(city.addresses, dates="day-first"))
    assert take(store, ordered).days == ("2026-01-02",)
    assert take(store, city).known == 1


def test_a_corrupt_day_is_made_again_from_its_file(store: Store) -> None:
    store.put("incoming/friday.csv", GOOD.encode())
    take(store)
    day = layout.driven_day("lyon", FRIDAY)
    whole = everything(store)
    store.put(day, whole[day][:-9])
    with pytest.raises(McvrpError, match=r"2026-02-27\.parquet is .*: remove it, and the next night reads"):
        take(store)
    store.delete(day)
    assert take(store).days == (FRIDAY,)
    assert store.get(day) == whole[day]


def test_days_of_another_city_are_refused(store: Store, tmp_path: Path) -> None:
    store.put("incoming/friday.csv", GOOD.encode())
    take(store)
    store.put("incoming/saturday.csv", WHOLE.encode())
    other = City.uniform(12, seed=2)
    save_city(store, "lyon", CITY)
    before = everything(store)
    cities = rf"2026-02-27.parquet was driven in city 'lyon' \({CITY.city_id}\).*{other.city_id}"
    with pytest.raises(McvrpError, match=cities):
        take(store, replace(LYON, city=other))
    assert everything(store) == before
    os.rename(Path(store.uri, layout.driven_dir("lyon")), tmp_path / "away")  # as the message says
    assert take(store, replace(LYON, city=other)).days == ("2026-02-27", "2026-02-28")
    store.delete(layout.driven_dir("lyon"))
    os.rename(tmp_path / "away", Path(store.uri, layout.driven_dir("lyon")))
    extended = replace(CITY, xy=np.vstack([CITY.xy, [[0.1, 0.2]]]), extends=(12,))
    take(store, replace(LYON, city=extended))
    assert len(driven_days(store, "lyon")) == 2
