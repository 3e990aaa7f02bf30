"""Ingestion of files of driven routes: once each, nothing lost, and the same days after any interruption."""

from __future__ import annotations

import datetime
import errno
import io
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mcvrp.model.canonical_form import canonical
from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City, Solution, cost
from mcvrp.storage import layout
from mcvrp.storage.cities import Addresses, StoredCity, save_city
from mcvrp.storage.driven import IntakeReceipt, checksum, read_day
from mcvrp.storage.store.store import Store, StoreUnavailable
from mcvrp.tasks.driven.take import Taken, take_routes
from mcvrp.tasks.files.cvrplib import parse_sol, parse_vrp
from mcvrp.tasks.files.file_bytes import MOST_BYTES
from tests.support.datasets import everything
from tests.support.killed import Request, serve_all
from tests.support.workbook import DAY, with_cell, xlsx

CITY = City.uniform(12, seed=1)
LYON = StoredCity("lyon", CITY, Addresses(("depot", *(f"C{node}" for node in range(1, 13)))), "imported")
TODAY = datetime.date(2026, 3, 1)
FRIDAY, SATURDAY = datetime.date(2026, 2, 27), datetime.date(2026, 2, 28)
HEADER = "date,route,stop,customer,demand,capacity"
GOOD = f"{HEADER}\n2026-02-27,a,1,C1,4,10\n2026-02-27,a,2,C2,6,10\n2026-02-27,b,1,C3,2,10\n"
STOPS = (("a", 1, "C1", 4), ("a", 2, "C2", 6), ("b", 1, "C3", 2))
MIXED = f"{HEADER}\n2026-02-28,a,1,C4,4,10\n2026-02-28,b,1,C99,4,10\n"


def take(store: Store, city: StoredCity = LYON, **options: Any) -> Taken:
    return take_routes(store, city, today=TODAY, **options)


def quarantine(store: Store, receipt: IntakeReceipt) -> str:
    return store.get(layout.driven_quarantine("lyon", receipt.quarantine)).decode()


SHEET = [HEADER.split(","), *([(DAY, 46080), r, s, c, d, 10] for r, s, c, d in STOPS)]


@pytest.mark.parametrize(
    ("name", "data"), [("friday.csv", GOOD.encode()), ("friday.xlsx", xlsx({"Routes": SHEET}))]
)
def test_a_file_becomes_a_day(store: Store, name: str, data: bytes) -> None:
    """Orders and routes as driven, at the city's cost, and a receipt that counts."""
    store.put(f"incoming/{name}", data)
    (receipt,) = take(store).receipts
    assert (receipt.name, receipt.rows, receipt.quarantined, receipt.days) == (name, 3, 0, ("2026-02-27",))
    label = read_day(store, "lyon", FRIDAY)
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
    friday, saturday = take_routes(store, city, today=TODAY).receipts
    assert (friday.rows, friday.quarantined, saturday.quarantined) == (3, 0, 0)
    labels = [read_day(store, "lyon", date) for date in (FRIDAY, SATURDAY)]
    assert labels[0].solution == labels[1].solution == canonical(CITY, Solution.of([[1, 2], [3]]))
    refused = f"{own.replace('code client', 'code')}{rows}".replace(",customer\n", ",name\n")
    store.put("incoming/zz.csv", refused.encode())
    store.put("incoming/zzz.csv", f"{HEADER}\n2026-02-27,c,1,depot,4,10\n".encode())
    store.put("incoming/zzzz.csv", f"{HEADER}\n2026-02-27,c,0,depot,0,10\n".encode())
    taken = take(store, city)
    assert "no column customer" in taken.refused[0]
    assert taken.quarantined[0].faults == ("row 2: customer 'depot' is the depot: list only customers",)
    _, nothing = taken.receipts
    assert (nothing.rows, nothing.quarantined, nothing.days) == (0, 0, ())


@pytest.mark.parametrize("name", ["samedi été", "-x", "日本", "a b.c"])
def test_a_quarantine_has_a_valid_name_whatever_its_file_is_called(store: Store, name: str) -> None:
    """A night would end with each such file, every night."""
    store.put(f"incoming/{name}.csv", GOOD.replace("C3", "C99").encode())
    (taken,) = take(store).receipts
    assert taken.quarantined == 1
    assert store.exists(layout.driven_quarantine("lyon", taken.quarantine))


def test_a_hidden_file_is_not_ingested(store: Store) -> None:
    store.put("incoming/.tour.csv", GOOD.encode())
    assert take(store).receipts == ()


def test_a_file_is_taken_once_whatever_it_is_called(store: Store) -> None:
    store.put("incoming/friday.csv", GOOD.encode())
    take(store)
    before = everything(store)
    assert (take(store).receipts, take(store).known) == ((), 1)
    assert everything(store) == before
    store.put("incoming/again.csv", GOOD.encode())
    assert (take(store).receipts, take(store).known) == ((), 2)


def test_rejected_rows_are_quarantined(store: Store) -> None:
    """In a form that can be corrected and submitted again; of a day in two files, equal routes are known."""
    store.put("incoming/friday.csv", GOOD.encode())
    store.put("incoming/saturday.csv", MIXED.encode())
    store.put("incoming/zz-late.csv", GOOD.replace(",b,1,C3,2,", ",b,1,C3,3,").encode())
    _, saturday, late = take(store).receipts
    assert (saturday.rows, saturday.quarantined) == (2, 1)
    assert (late.days, late.quarantined) == (("2026-02-27",), 1)
    aside = pd.read_csv(io.BytesIO(store.get(layout.driven_quarantine("lyon", saturday.quarantine))))
    assert aside["row"].tolist() == [3]
    assert aside["reason"].tolist() == ["customer 'C99' is not in the city"]
    assert set(HEADER.split(",")) <= set(aside.columns)
    assert (
        "customer 'C3' is on another route of 2026-02-27, which was read from friday.csv: if this file is "
        "right, run mcvrp driven remove 2026-02-27 --city lyon"
    ) in quarantine(store, late)


BROKEN = f"{HEADER}\n2026-02-27,a,1,C1,4,10\n2026-02-27,b,1,C99,2,10\n2026-02-27,b,2,C3,2,10\n"


def test_a_quarantine_has_the_form_of_its_file(store: Store) -> None:
    """So that the spreadsheet program that wrote the file opens it as it was."""
    text = BROKEN.replace(",", ";").replace("C99", "Käse")
    store.put("incoming/friday.csv", text.encode("cp1252"))
    (receipt,) = take(store).receipts
    quarantine = store.get(layout.driven_quarantine("lyon", receipt.quarantine)).decode("utf-8")
    assert quarantine.startswith("\ufeffrow;date;")
    assert ";Käse;" in quarantine


def test_a_repair_has_the_capacity_of_its_day(store: Store) -> None:
    store.put("incoming/friday.csv", BROKEN.encode())
    store.put(
        "incoming/later.csv",
        BROKEN.replace("C99", "C2").replace("C1,", "C4,").replace(",10\n", ",12\n").encode(),
    )
    _, later = take(store).receipts
    assert (later.days, later.quarantined) == ((), 3)
    assert quarantine(store, later).count("its capacity is 12, not 10 as on 2026-02-27, which was") == 2


def test_a_file_that_is_too_large_waits(store: Store, tmp_path: Path) -> None:
    store.put("incoming/friday.csv", GOOD.encode())
    path = tmp_path / "incoming/saturday.csv"
    path.touch()
    os.truncate(path, MOST_BYTES + 1)  # without content
    taken = take(store)
    assert [receipt.name for receipt in taken.receipts] == ["friday.csv"]
    (refused,) = taken.refused
    assert refused.startswith("incoming/saturday.csv is refused: ")
    assert refused.endswith("has 200,000,001 bytes, more than 200,000,000: split it")


def test_a_file_that_cannot_be_read_waits(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are ingested."""
    for name, data in (("a.csv", MIXED), ("friday.csv", GOOD)):
        store.put(f"incoming/{name}", data.encode())

    def denied(verb: str, path: str, request: Request) -> Any:
        if verb == "read" and path.endswith("a.csv"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return request()

    serve_all(monkeypatch, denied)
    taken = take_routes(store, LYON, today=TODAY, quiet_seconds=0.01)
    assert taken.days == ["2026-02-27"]
    (refused,) = taken.refused
    assert refused.startswith("incoming/a.csv is refused: ")


def test_a_file_that_vanishes_is_no_end_of_the_night(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, data in (("a.csv", MIXED), ("friday.csv", GOOD)):
        store.put(f"incoming/{name}", data.encode())
    size = Store.size

    def gone(self: Store, path: str) -> int:
        self.delete("incoming/a.csv")
        return size(self, path)

    monkeypatch.setattr(Store, "size", gone)
    taken = take(store)
    assert (taken.days, [each.path for each in taken.left_out]) == (["2026-02-27"], ["incoming/a.csv"])


def test_a_file_of_tomorrow_waits_for_its_day(store: Store) -> None:
    """Put there in the evening before, or east of this machine; other dates ahead are errors."""
    store.put("incoming/plan.csv", GOOD.replace("2026-02-27", "2026-03-02").encode())
    store.put("incoming/typo.csv", GOOD.replace("2026-02-27", "2062-02-27").encode())
    store.put("incoming/week.csv", (GOOD + "2026-03-02,a,1,C9,4,10\n").encode())
    taken = take(store)
    why = "is not ingested yet: it has routes of 2026-03-02: run again from that day"
    waiting = [str(each) for each in taken.left_out if each.waits]
    assert waiting == [f"incoming/plan.csv {why}", f"incoming/week.csv {why}"]
    (refused,) = taken.refused
    assert "typo.csv: row 2: date '2062-02-27' is in the future" in refused
    assert (taken.receipts, taken.days) == ((), [])
    tomorrow = take_routes(store, LYON, today=TODAY + datetime.timedelta(days=1))
    assert tomorrow.days == ["2026-02-27", "2026-03-02"]


def test_what_a_receipt_stands_for_is_what_was_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is replaced during its ingestion is read once: days and checksum are of the same bytes."""
    store.put("incoming/friday.csv", GOOD.encode())
    get = Store.get

    def replaced(self: Store, path: str) -> bytes:
        data = get(self, path)
        if path == "incoming/friday.csv":
            self.put(path, MIXED.encode())
        return data

    monkeypatch.setattr(Store, "get", replaced)
    (receipt,) = take(store).receipts
    assert (receipt.sha256, receipt.days) == (checksum(GOOD.encode()), ("2026-02-27",))


@pytest.mark.parametrize(
    ("name", "data", "error"),
    [
        ("a.csv", lambda: b"day,stop\n1,2\n", "a.csv has no column date, route, customer"),
        (
            "a.xlsx",
            lambda: with_cell(xlsx({"Routes": SHEET}), '<c r="XFD1048576"><v>1</v></c>'),
            "far from the table",
        ),  # crashes its reader
    ],
)
def test_a_file_that_cannot_be_read_is_refused_by_each_night(
    store: Store, name: str, data: Callable[[], bytes], error: str
) -> None:
    """The others are ingested; corrected under its name, it is, too."""
    store.put(f"incoming/{name}", data())
    store.put("incoming/friday.csv", GOOD.encode())
    first = take(store)
    assert first.days == ["2026-02-27"]
    for taken in (first, take(store)):
        (refused,) = taken.refused
        assert refused.startswith(f"incoming/{name} is refused: {name}")
        assert error in refused
    assert store.exists(f"incoming/{name}")
    store.put(f"incoming/{name}", MIXED.replace("C99", "C9").encode())
    taken = take(store)
    assert (taken.days, taken.refused) == (["2026-02-28"], [])


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
    assert "no column date, route, stop, customer and capacity, but datum, tournée, arrêt, code" in refused
    assert "--columns date=NAME" in refused
    city = replace(LYON, addresses=replace(LYON.addresses, columns=NAMES))
    before = everything(store)
    (refused,) = take(store, city).refused
    assert "date '02/01/2026' in row 2 may have day or month first: set nightly.dates = day-first" in refused
    assert everything(store) == before
    assert take(store, city, dates="day-first").days == ["2026-01-02"]
    assert take(store, city).known == 1


def test_the_order_of_day_and_month_may_be_that_of_the_city(store: Store) -> None:
    """The setting of the night comes first."""
    store.put("incoming/friday.csv", GOOD.replace("2026-02-27", "02/01/2026").encode())
    city = replace(LYON, addresses=replace(LYON.addresses, dates="month-first"))
    assert take(store, city, dates="day-first").days == ["2026-01-02"]
    store.put("incoming/more.csv", GOOD.replace("2026-02-27", "01/02/2026").encode())
    assert take(store, city).refused == []
    store.put("incoming/other.csv", GOOD.replace("2026-02-27", "02/03/2026").encode())
    assert take(store, city).days == ["2026-02-03"]


def test_ids_are_those_of_the_city_in_any_unicode_form(store: Store) -> None:
    """Routes, too: an é of two characters is the é of one."""
    ids = ("depot", "Caf\u00e9", "007", "7", *map("C{}".format, range(9)))
    town = replace(LYON, addresses=Addresses(ids))
    rows = "2026-02-27,T\u00e9,1,Cafe\u0301,4,10\n2026-02-27,Te\u0301,2,007,4,10\n"
    store.put("incoming/friday.csv", f"{HEADER}\n{rows}".encode())
    taken = take_routes(store, town, today=TODAY)
    (first,) = taken.receipts
    assert (first.quarantined, first.days) == (0, ("2026-02-27",))
    assert read_day(store, "lyon", FRIDAY).solution in (Solution(((1, 2),)), Solution(((2, 1),)))


def test_half_a_file_is_not_taken(store: Store) -> None:
    """It would give half a day, and the rest would be refused: it is ingested once complete."""
    half = GOOD[:-20]
    store.put("incoming/friday.csv", half.encode())
    before = everything(store)
    taken = take_routes(store, LYON, today=TODAY, quiet_seconds=0.01)
    assert (taken.receipts, [file.path for file in taken.left_out]) == ((), ["incoming/friday.csv"])
    assert everything(store) == before
    store.put("incoming/friday.csv", GOOD.encode())
    taken = take_routes(store, LYON, today=TODAY, quiet_seconds=0.01)
    assert (taken.days, taken.left_out) == (["2026-02-27"], ())


def test_a_corrupt_day_is_made_again_from_its_file(store: Store) -> None:
    store.put("incoming/friday.csv", GOOD.encode())
    store.put("incoming/more.csv", f"{HEADER}\n2026-02-27,c,1,C5,4,10\n".encode())
    keys = [receipt.key for receipt in take(store).receipts]
    day = layout.driven_day_file("lyon", FRIDAY.isoformat(), 2)
    whole = everything(store)
    store.put(day, whole[day][:-9])
    remedy = r"2026-02-27/000002.parquet.*: remove it and all receipts in .*lyon/files that name its day"
    with pytest.raises(McvrpError, match=remedy):
        take(store)
    with pytest.raises(McvrpError, match=remedy):
        read_day(store, "lyon", FRIDAY)
    store.delete(layout.driven_day("lyon", FRIDAY.isoformat()))
    for key in keys:
        store.delete(layout.driven_receipt("lyon", key))
    take(store)
    assert everything(store) == whole


def test_days_of_another_city_are_refused(store: Store, tmp_path: Path) -> None:
    store.put("incoming/friday.csv", GOOD.encode())
    take(store)
    store.put("incoming/saturday.csv", MIXED.encode())
    other = City.uniform(12, seed=2)
    save_city(store, "lyon", CITY)
    before = everything(store)
    cities = rf"2026-02-27 was driven in city 'lyon' \({CITY.city_id}\).*{other.city_id}"
    with pytest.raises(McvrpError, match=cities):
        take_routes(store, replace(LYON, city=other), today=TODAY)
    assert everything(store) == before
    os.rename(Path(store.uri, layout.driven_dir("lyon")), tmp_path / "away")  # as the message says
    assert take_routes(store, replace(LYON, city=other), today=TODAY).days == ["2026-02-27", "2026-02-28"]
    store.delete(layout.driven_dir("lyon"))
    os.rename(tmp_path / "away", Path(store.uri, layout.driven_dir("lyon")))
    extended = replace(CITY, xy=np.vstack([CITY.xy, [[0.1, 0.2]]]), extends=(12,))
    assert len(take_routes(store, replace(LYON, city=extended), today=TODAY).stored) == 2


DATA = Path(__file__).parents[3] / "support" / "data"
VRP, SOL = (DATA / "E-n22-k4.vrp").read_bytes(), (DATA / "E-n22-k4.sol").read_bytes()
UNPRICED = SOL[: SOL.index(b"Cost")]
FILE = parse_vrp("E-n22-k4.vrp", VRP)
CITY_OF_FILE = StoredCity("e", FILE.city, Addresses.numbered(FILE.city.customers), "imported")


def take_solutions(store: Store) -> Taken:
    return take_routes(store, CITY_OF_FILE, today=TODAY)


def test_a_solution_is_a_day_to_learn_from(store: Store) -> None:
    store.put("incoming/E-2026-01-31.vrp", VRP)
    store.put("incoming/E-2026-01-31.sol", SOL)
    (receipt,) = take_solutions(store).receipts
    assert (receipt.rows, receipt.quarantined, receipt.days) == (21, 0, ("2026-01-31",))
    label = read_day(store, "e", datetime.date(2026, 1, 31))
    assert label.cost == 375
    assert label.solution == canonical(FILE.city, parse_sol("E.sol", SOL, FILE)[0])
    assert (label.instance.demands == FILE.demands).all()
    assert take_solutions(store).known == 1


@pytest.mark.parametrize(
    ("name", "vrp", "sol", "part"),
    [
        ("E-n22-k4", VRP, SOL, "E-n22-k4.sol has no date in its name"),
        ("2026-01-31", VRP.replace(b"2 151", b"2 152"), b"Route #1: 1\n", "2026-01-31.sol does not solve"),
        ("2026-01-31", VRP.replace(b"151 264", b"151 265"), UNPRICED, f"not of 'e' ({FILE.city.city_id})"),
        ("2026-01-31", VRP.replace(b"CAPACITY", b"DISTANCE : 9\nCAPACITY"), SOL, "DISTANCE in line"),
    ],
)
def test_what_is_no_day_is_refused_with_its_reason(
    store: Store, name: str, vrp: bytes, sol: bytes, part: str
) -> None:
    save_city(store, "e", FILE.city)
    store.put(f"incoming/{name}.vrp", vrp)
    store.put(f"incoming/{name}.sol", sol)
    taken = take_solutions(store)
    assert (taken.receipts, taken.days) == ((), [])
    assert part in taken.refused[0]


def test_a_refused_solution_is_read_again_once_it_is_corrected(store: Store) -> None:
    """Its name and its instance belong to it: each may be what was wrong."""
    half = VRP[: VRP.index(b"DEMAND_SECTION")]
    store.put("incoming/2026-01-30.vrp", half)
    store.put("incoming/2026-01-30.sol", SOL)
    store.put("incoming/E.vrp", VRP)
    store.put("incoming/E.sol", SOL)
    assert len(take_solutions(store).refused) == 2
    store.put("incoming/2026-01-30.vrp", VRP)
    for ending in (".vrp", ".sol"):
        store.put(f"incoming/E-2026-01-31{ending}", store.get(f"incoming/E{ending}"))
        store.delete(f"incoming/E{ending}")
    assert take_solutions(store).days == ["2026-01-30", "2026-01-31"]
    assert (take_solutions(store).receipts, take_solutions(store).known) == ((), 2)


def test_endings_may_have_capitals(store: Store) -> None:
    for day, vrp, sol in (("30", ".vrp", ".SOL"), ("31", ".VRP", ".sol")):  # with the same routes
        store.put(f"incoming/2026-01-{day}{vrp}", VRP)
        store.put(f"incoming/2026-01-{day}{sol}", SOL)
    assert take_solutions(store).days == ["2026-01-30", "2026-01-31"]


def test_a_solution_needs_its_instance(store: Store) -> None:
    store.put("incoming/2026-01-31.sol", SOL)
    before = take_solutions(store)
    assert before.receipts == ()
    (refused,) = before.refused
    assert refused.endswith("a solution without its instance: put 2026-01-31.vrp into the same folder")
    store.put("incoming/2026-01-31.vrp", VRP)
    assert take_solutions(store).days == ["2026-01-31"]


def test_an_unresponsive_store_is_no_fault_of_the_file(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the instance cannot be read from the store, there is no receipt: the solution is tried again."""
    store.put("incoming/E-2026-01-31.vrp", VRP)
    store.put("incoming/E-2026-01-31.sol", SOL)
    get = Store.get

    def silent(self: Store, path: str) -> bytes:
        if path.endswith(".vrp"):
            raise StoreUnavailable("no response")
        return get(self, path)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "get", silent)
        with pytest.raises(StoreUnavailable):
            take_solutions(store)
    assert take_solutions(store).days == ["2026-01-31"]
