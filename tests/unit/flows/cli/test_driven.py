"""`mcvrp driven remove`: the removed day and what becomes of it, not while a night is running."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest

from mcvrp.flows.cli import main as cli
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.cities import Addresses, StoredCity
from mcvrp.storage.driven import driven_days
from mcvrp.storage.store import lease
from mcvrp.storage.store.lease import holding
from mcvrp.storage.store.store import Store
from mcvrp.storage.trials import TrialRecord, write_record
from mcvrp.tasks.driven.take import take_routes

ROWS = "date,route,stop,customer,demand,capacity\n2026-02-27,a,1,1,4,10\n2026-02-28,a,1,1,4,10\n"
INCOMING = ("--set", "nightly.incoming=incoming/lyon")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The store of the environment with two driven days of the cities laptop and lyon each."""
    monkeypatch.setenv("MCVRP_STORE", str(tmp_path))
    store, city = Store.open(tmp_path), City.uniform(12, seed=1)
    for name in ("laptop", "lyon"):
        store.put(f"incoming/{name}/days.csv", ROWS.encode())
        stored = StoredCity(name, city, Addresses.numbered(12), "imported")
        take_routes(store, stored, today=datetime.date(2026, 3, 1), incoming=f"incoming/{name}")
    return store


def days(store: Store, city: str) -> list[str]:
    return [day.date.isoformat() for day in driven_days(store, city)]


def test_a_day_of_one_city_is_removed(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    """The command names a file that has the day, and the versions that have learned from it."""
    learned = tuple(day.name for day in driven_days(store, "lyon"))
    write_record(store, "m", TrialRecord("night-0", 1, 1, 2, "d", True, (), days=learned))
    assert cli.run(["driven", "remove", "2026-02-27", "--city", "lyon", *INCOMING]) == 2
    assert "incoming/lyon/days.csv has routes of 2026-02-27" in " ".join(capsys.readouterr().err.split())
    store.delete("incoming")
    assert cli.run(["driven", "remove", "2026-02-27", "--city", "lyon"]) == 0
    assert (days(store, "lyon"), len(days(store, "laptop"))) == (["2026-02-28"], 2)
    out = " ".join(capsys.readouterr().out.split())
    assert "2026-02-27 of city lyon is removed" in out
    assert "version 2 of m has learned from it (night-0): those labels are removed" in out
    assert cli.run(["driven", "remove", "2026-02-28", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["date"] == "2026-02-28"
    assert days(store, "laptop") == ["2026-02-27"]


def test_a_day_is_not_removed_under_a_night(
    store: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "TTL_SECONDS", 3.0)  # an owner that lives is heard within a third
    store.delete("incoming")
    with holding(store, layout.retraining_lease("laptop"), "busy"):
        assert cli.run(["driven", "remove", "2026-02-27"]) == 2
    assert "model 'laptop' is being retrained" in capsys.readouterr().err
    assert len(days(store, "laptop")) == 2
