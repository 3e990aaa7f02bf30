"""Decided routes of a file: they stay as they are, and the others are planned beside them."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from python_calamine import CalamineWorkbook

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import Instance, cost, infeasibility
from mcvrp.storage.cities import Addresses
from mcvrp.storage.store.store import Store
from mcvrp.tasks.solve.kept import Kept, read_kept, rest_of
from mcvrp.tasks.solve.outputs import Place, write_day
from mcvrp.tasks.solve.unserved import require_possible
from mcvrp.tasks.solvers.solver import Limits
from tests.support.solving import CITY, solved_day
from tests.support.workbook import xlsx

pytestmark = pytest.mark.usefixtures("impatient")
NAMES = Addresses.numbered(CITY.customers)
HEADER = "route,stop,customer\n"
MARKED = "route,stop,customer,kept\n"


def orders(count: int, demand: int = 3) -> Instance:
    return Instance(CITY.city_id, np.arange(1, count + 1), np.full(count, demand), 18)  # type: ignore[arg-type]


def test_the_others_are_planned_with_the_vehicles_that_remain() -> None:
    kept = Kept("k.csv", ((3, 1),))
    rest = rest_of(kept, CITY, orders(5), Limits(fleet=3, longest_route=9.0))
    assert rest is not None
    assert rest.instance.ids.tolist() == [2, 4, 5]
    assert rest.limits == Limits(2, 9.0)


def read(folder: Path, text: str, **columns: str) -> Kept:
    (folder / "keep.csv").write_text(text)
    names = replace(NAMES, columns=columns)
    return read_kept(Store.open(folder), str(folder / "keep.csv"), names, orders(6))


def test_a_file_marks_what_is_kept(tmp_path: Path) -> None:
    """All stops of a route, or none; all routes without the column."""
    rows = "a,0,0,WAHR\na,1,1,yes\na,2,2,x\na,3,0,\nb,2,4,no\nb,1,3,\n"
    left: dict[str, Any] = {"marked": True, "others": ("b",)}
    assert read(tmp_path, MARKED + rows) == Kept("keep.csv", ((1, 2),), ("a",), ("",), **left)
    own = "Tour,stop,Code,fest,kept\na,1,1,x,?\nb,2,2,,\n"
    marked = read(tmp_path, own, id="Code", route="Tour", kept="Fest")
    assert marked == Kept("keep.csv", ((1,),), ("a",), ("",), **left)
    plain = "route,stop,customer,fixed,load_after,\na,1,1,x,3\nb,1,2,,3\nb,2,3,,6\n"
    assert read(tmp_path, plain) == Kept("keep.csv", ((1,), (2, 3)), ("a", "b"), ("", ""))


def test_routes_that_are_kept_are_of_the_day(tmp_path: Path) -> None:
    """Those of its date, in the city's order of day and month."""
    file, day = tmp_path / "keep.csv", datetime.date(2026, 11, 3)
    file.write_text("date,route,stop,customer\n02/11/2026,a,1,1\n03/11/2026,a,1,2\n")
    names = replace(NAMES, dates="day-first")
    assert read_kept(Store.open(tmp_path), str(file), names, orders(6), date=day).routes == ((2,),)


def test_kept_routes_take_vehicles() -> None:
    """None is needed if all is kept; the bound of the others names those that are kept."""
    two = Kept("k.csv", ((1,), (2,)))
    all_kept = Kept("k.csv", ((1, 3), (4, 2)))
    assert rest_of(all_kept, CITY, orders(4), Limits(fleet=2)) is None
    rest = rest_of(two, CITY, orders(8, demand=9), Limits(fleet=4))
    assert rest is not None
    message = (
        "--fleet 4: a total demand of 54 at a capacity of 18 needs at least 3 vehicles besides the 2 kept:"
    )
    with pytest.raises(McvrpError, match=message):
        require_possible(rest, "--fleet 4", NAMES, kept=2)


@pytest.mark.parametrize("marked", [True, False])
def test_a_day_is_planned_around_yesterdays_routes(store: Store, tmp_path: Path, marked: bool) -> None:
    """From routes.csv: the marked routes, or all, stay as they are."""
    spec: dict[str, Any] = {"time_limit": 2.0, "samples": 4}
    earlier = solved_day(store, dict.fromkeys(range(1, 16), 3), 18, **spec)
    write_day(Place(Store.open(tmp_path)), earlier)
    frame = pd.read_csv(tmp_path / "routes.csv").query("route < 3")
    if marked:
        frame["kept"] = (frame["route"] == 1).map({True: "yes", False: ""})
    frame.assign(Driver="Eve").to_csv(tmp_path / "keep.csv", index=False)
    kept = earlier.solution.routes[: 1 if marked else 2]
    limits: dict[str, Any] = {"fleet": 4, "longest_route": 99.0}
    more = dict.fromkeys(range(1, 21), 3)
    result = solved_day(store, more, 18, keep=str(tmp_path / "keep.csv"), **spec, **limits)
    assert infeasibility(result.planned.day.instance, result.solution) is None
    assert result.solution.routes[: len(kept)] == kept
    assert len(result.solution.routes) <= 4
    findings = result.search.findings
    assert result.cost == pytest.approx(findings[0].cost) == cost(CITY, result.solution)
    notes = "\n".join(result.notes)
    assert f"keep.csv keeps {len(kept)} route" in notes
    assert ("as it has no column kept" in notes) != marked
    assert "satisfy --fleet 4 and --longest-route 99.000, kept ones included but for their length" in notes
    assert (findings[0].routes, result.unserved) == (len(result.solution.routes), ())


def test_kept_routes_have_their_names_in_all_files(store: Store, tmp_path: Path) -> None:
    """New routes take the numbers that are free; the table that is written keeps the same routes again."""
    north, odd = "north/" + "x" * 30, "North: $1"  # of sheets, in 31 characters that Excel accepts
    (tmp_path / "keep.csv").write_text(HEADER + f"3,1,5\n{north},1,4\n{odd},1,6\n1,1,7\n")
    demands, options = dict.fromkeys(range(1, 21), 3), {"time_limit": 0.5, "samples": 0}
    result = solved_day(store, demands, 9, keep=str(tmp_path / "keep.csv"), **options)
    assert result.names[:6] == ["3", north, odd, "1", "2", "4"]
    write_day(Place(Store.open(tmp_path / "out")), result)
    table = pd.read_csv(tmp_path / "out" / "routes.csv", keep_default_na=False)
    assert list(dict.fromkeys(table["route"])) == result.names
    assert set(table["route"][table["kept"] == "yes"]) == {"3", north, odd, "1"}
    again = solved_day(store, demands, 9, keep=str(tmp_path / "out" / "routes.csv"), **options)
    assert again.planned.kept is not None
    assert result.planned.kept is not None
    assert (again.planned.kept.names, again.planned.decided) == (
        result.planned.kept.names,
        result.planned.decided,
    )
    book = CalamineWorkbook.from_path(tmp_path / "out" / "routes.xlsx")
    titles = [f"Route {name}{' (kept)' if k < 4 else ''}" for k, name in enumerate(result.names)]
    assert [row[0] for row in book.get_sheet_by_name("Overview").to_python()[4:]] == titles
    assert [book.get_sheet_by_name(name).to_python()[0][0] for name in book.sheet_names[1:-1]] == titles
    tabs = ["Route 3 (kept)", "Route north-" + "x" * 19, "Route North- -1 (kept)", "Route 1 (kept)"]
    assert book.sheet_names[1:5] == tabs
    for name in ("map.html", "README.md"):
        text = (tmp_path / "out" / name).read_text()
        assert "3 (kept)" in text
        assert "2 (kept)" not in text


def test_routes_are_kept_by_the_workbook_alone(store: Store, tmp_path: Path) -> None:
    """Its sheet of stops is read as routes.csv is: unmarked as it is, and with marks."""
    demands, options = dict.fromkeys(range(1, 21), 3), {"time_limit": 0.5, "samples": 0}
    written = tmp_path / "out" / "routes.xlsx"
    result = solved_day(store, demands, 9, **options)
    write_day(Place(Store.open(tmp_path / "out")), result)
    instance = result.planned.day.instance
    whole = read_kept(Store.open(tmp_path), str(written), NAMES, instance)
    assert whole.routes == result.solution.routes
    book = CalamineWorkbook.from_path(written)
    sheets = {name: book.get_sheet_by_name(name).to_python() for name in book.sheet_names}
    sheets["Stops"] = [
        [*row, "kept" if k == 0 else "x" * (row[0] == 2)] for k, row in enumerate(sheets["Stops"])
    ]
    written.write_bytes(xlsx(sheets))
    marked = solved_day(store, demands, 9, keep=str(written), **options)
    assert marked.planned.kept is not None
    assert (marked.planned.kept.names, marked.planned.decided.routes) == (("2",), result.solution.routes[1:2])
    others = set(result.names) - {"2"}
    assert set(marked.planned.kept.others) == others
    assert any(f"planned again, as not marked in {written.name}" in note for note in marked.notes)


def test_a_second_order_on_a_kept_route_needs_an_id(tmp_path: Path) -> None:
    table = "route,stop,customer,demand\na,1,1,8\n"
    with pytest.raises(McvrpError, match=r"'8', and \d+ in the orders: .*second order needs its own id"):
        read(tmp_path, table)


def test_a_cancelled_stop_says_what_to_do(tmp_path: Path) -> None:
    """Its row is removed, and the rest of the route stays."""
    rows = "a,1,1,x\na,2,9,x\na,3,2,x\n"
    with pytest.raises(McvrpError, match="row 3: the kept stop at '9' has no order"):
        read(tmp_path, MARKED + rows)
    assert read(tmp_path, MARKED + rows.replace("a,2,9,x\n", "")).routes == ((1, 2),)


def test_a_day_that_is_decided_needs_no_search(store: Store, tmp_path: Path) -> None:
    (tmp_path / "keep.csv").write_text(MARKED + "a,1,5,1\na,2,4,1\nb,1,6,1\n")
    result = solved_day(store, {4: 3, 5: 3, 6: 3}, 18, keep=str(tmp_path / "keep.csv"))
    assert result.solution.routes == ((5, 4), (6,))
    assert result.found_by == "the kept routes"
    limited = solved_day(store, {4: 3, 5: 3, 6: 3}, 18, keep=str(tmp_path / "keep.csv"), longest_route=1e-3)
    assert any(each.startswith("kept routes longer than ") for each in limited.notes)


@pytest.mark.parametrize("limits", [{"fleet": 1}, {"longest_route": 0.01}], ids=["fleet", "longest route"])
def test_kept_routes_are_an_answer_if_nobody_else_has_room(
    store: Store, tmp_path: Path, limits: dict[str, Any]
) -> None:
    """With --drop; of any priority, and without the rest of the demand in the figures."""
    (tmp_path / "day.csv").write_text("customer,demand,priority\n4,3,\n5,3,\n6,3,2\n7,3,1\n")
    (tmp_path / "keep.csv").write_text(MARKED + "a,1,5,1\na,2,4,1\n")
    given: dict[str, Any] = {"keep": str(tmp_path / "keep.csv"), "time_limit": 1.0, "samples": 0, **limits}
    result = solved_day(store, str(tmp_path / "day.csv"), 18, drop=True, **given)
    assert result.solution.routes == ((5, 4),)
    assert [each.customer for each in result.unserved] == ["6", "7"]
    assert (result.found_by, int(result.instance.demands.sum())) == ("the kept routes", 6)
    assert result.cost == pytest.approx(cost(CITY, result.solution))
    message = r"2 customers without a route: increase it|no routes satisfy --longest-route"
    with pytest.raises(McvrpError, match=message):
        solved_day(store, str(tmp_path / "day.csv"), 18, **given)
