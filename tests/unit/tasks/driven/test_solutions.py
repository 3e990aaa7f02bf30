"""Solutions of CVRPLIB as driven days: routes and orders from two files, or an error message."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from mcvrp.model.canonical_form import canonical
from mcvrp.storage.cities import Addresses, StoredCity
from mcvrp.storage.driven import read_day
from mcvrp.storage.labels.schema import Label
from mcvrp.storage.store.store import Store, StoreUnavailable
from mcvrp.tasks.driven.take import Taken, take_routes
from mcvrp.tasks.files.cvrplib import VrpFile, parse_sol, parse_vrp

DATA = Path(__file__).parents[3] / "support" / "data"
VRP, SOL = (DATA / "E-n22-k4.vrp").read_bytes(), (DATA / "E-n22-k4.sol").read_bytes()
DAY = datetime.date(2026, 1, 31)


def take(store: Store, vrp: VrpFile) -> Taken:
    city = StoredCity("e", vrp.city, Addresses.numbered(vrp.city.customers), "imported")
    return take_routes(store, city, today=datetime.date(2026, 3, 1))


def test_a_solution_is_a_day_to_learn_from(tmp_path: Path) -> None:
    """The label has the orders of the instance, the routes of the solution and its published cost."""
    store, vrp = Store.open(tmp_path), parse_vrp("E-n22-k4.vrp", VRP)
    store.put("incoming/E-2026-01-31.vrp", VRP)
    store.put("incoming/E-2026-01-31.sol", SOL)
    (receipt,) = take(store, vrp).receipts
    assert (receipt.rows, receipt.rejected, receipt.days) == (21, 0, ("2026-01-31",))
    label: Label = read_day(store, "e", DAY)
    assert label.cost == 375
    assert label.solution == canonical(vrp.city, parse_sol("E.sol", SOL, vrp)[0])
    assert (label.instance.demands == vrp.demands).all()
    assert take(store, vrp).known == 1


@pytest.mark.parametrize(
    ("name", "vrp", "sol", "part"),
    [
        ("E-n22-k4", VRP, SOL, "E-n22-k4.sol has no date in its name"),
        ("2026-01-31", VRP.replace(b"2 151", b"2 152"), b"Route #1: 1\n", "2026-01-31.sol does not solve"),
        (
            "2026-01-31",
            VRP.replace(b"151 264", b"151 265"),
            SOL[: SOL.index(b"Cost")],
            "is an instance of city",
        ),
        ("2026-01-31", VRP.replace(b"CAPACITY", b"DISTANCE : 9\nCAPACITY"), SOL, "a longest route"),
    ],
)
def test_what_is_no_day_is_refused_with_its_reason(
    tmp_path: Path, name: str, vrp: bytes, sol: bytes, part: str
) -> None:
    """No date, no solution, another city, constraints: the receipt has the error, and no day is stored."""
    store = Store.open(tmp_path)
    store.put(f"incoming/{name}.vrp", vrp)
    store.put(f"incoming/{name}.sol", sol)
    (receipt,) = take(store, parse_vrp("E-n22-k4.vrp", VRP)).receipts
    assert receipt.days == ()
    assert part in (receipt.refused or "")


def test_a_solution_waits_for_its_instance(tmp_path: Path) -> None:
    """It is reported and not ingested until its instance exists."""
    store, vrp = Store.open(tmp_path), parse_vrp("E-n22-k4.vrp", VRP)
    store.put("incoming/2026-01-31.sol", SOL)
    before = take(store, vrp)
    assert before.receipts == ()
    assert [str(one) for one in before.waiting] == [
        "incoming/2026-01-31.sol waits for 2026-01-31.vrp in the same folder"
    ]
    store.put("incoming/2026-01-31.vrp", VRP)
    assert take(store, vrp).days == ["2026-01-31"]


def test_a_store_that_does_not_respond_is_no_fault_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the instance cannot be read from the store, there is no receipt: the solution is tried again."""
    store, vrp = Store.open(tmp_path), parse_vrp("E-n22-k4.vrp", VRP)
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
            take(store, vrp)
    assert take(store, vrp).days == ["2026-01-31"]
