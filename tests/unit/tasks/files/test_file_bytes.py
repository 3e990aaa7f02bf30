"""Content of user files: the same at every kind of place, and errors by row."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcvrp.model.errors import LONGEST, McvrpError
from mcvrp.storage.store.store import Store
from mcvrp.tasks.files.cvrplib import read_vrp
from mcvrp.tasks.files.file_bytes import MOST_FAULTS, Faults, file_bytes, file_exists

DATA = Path(__file__).parents[3] / "support" / "data"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store.open(tmp_path)
    for name in ("E-n22-k4.vrp", "E-n22-k4.sol"):
        store.put(f"sets/{name}", (DATA / name).read_bytes())
    return store


def test_a_file_is_the_same_at_every_kind_of_place(store: Store, tmp_path: Path) -> None:
    """Local and in the store, with the solution beside it."""
    for folder in (str(tmp_path / "sets"), "store:sets"):
        assert file_bytes(store, f"{folder}/E-n22-k4.sol") == ("E-n22-k4.sol", store.get("sets/E-n22-k4.sol"))
        assert read_vrp(store, f"{folder}/E-n22-k4.vrp").best == 375.0
        assert not file_exists(store, f"{folder}/other.sol")
        with pytest.raises(McvrpError, match=r"sets/other\.sol"):
            file_bytes(store, f"{folder}/other.sol")
        with pytest.raises(McvrpError, match=r"E-n22-k4\.sol.* bytes"):
            file_bytes(store, f"{folder}/E-n22-k4.sol", most=9)


def test_a_tilde_may_begin_a_name(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of the file with which Excel locks another."""
    monkeypatch.chdir(tmp_path)
    Path("~$monday.xlsx").write_bytes(b"lock")
    assert file_exists(store, "~$monday.xlsx")
    assert file_bytes(store, "~$monday.xlsx") == ("~$monday.xlsx", b"lock")


def test_the_first_rows_with_an_error_are_named_and_the_others_counted() -> None:
    faults = Faults("day.csv")
    for row in range(MOST_FAULTS, 0, -1):
        faults.at(row, "demand is missing")
    with pytest.raises(McvrpError, match=r"^day\.csv: row 1: demand is missing; row 2: .* and \d\d more$"):
        faults.check()
    with pytest.raises(McvrpError, match=r"^day\.csv: row 1: .* and at least \d\d more$") as raised:
        faults.at(7, "another")
    assert len(str(raised.value)) <= LONGEST
    named = raised.value.sentences  # the terminal's lines
    assert (len(named), named[0], named[19]) == (
        21,
        "day.csv: row 1: demand is missing",
        "day.csv: row 19: demand is missing",
    )
    assert named[20].startswith("and at least 81 more")
