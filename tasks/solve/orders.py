"""Orders of a day: read from a table, checked against the city, merged into an instance."""

from __future__ import annotations

import datetime
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from mcvrp.model.errors import McvrpError, shown
from mcvrp.model.problem import DEPOT, City, Instance
from mcvrp.storage.cities import UNKNOWN, Addresses, DateOrder
from mcvrp.storage.store.store import Store
from mcvrp.tasks.files.cells import PLAIN, Dialect, dates, lack_order
from mcvrp.tasks.files.file_bytes import Faults, file_bytes, is_pasted
from mcvrp.tasks.files.tabular import Tabular, read_tabular
from mcvrp.tasks.solve.spec import Order, SolveSpec
from mcvrp.tasks.solve.wishes import Wishes, notes_on, read_wishes
from mcvrp.tasks.support.text import listed

MOST = 2**16 - 1  # maximum demand: instances store 16 bits
MOST_CAPACITY = 2**24  # float32 represents all loads up to here exactly
SPLIT = "split the order, a part with another id (mcvrp city extend)"  # equal ids are merged
_CUSTOMER, _ID, _DEMAND, _CAPACITY = ("customer", "customer_id"), "id", "demand", "capacity"
_DATE = "date"
_LIKE_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}|[0-9]{1,2}([./-])[0-9]{1,2}\1[0-9]{4}")
_OF_ROUTES = {"route", "stop", "kept"}  # fields of decided routes
# Columns of constraints that no route would satisfy: refused rather than ignored.
_REFUSED = {
    "a limit of the fleet (--fleet)": {
        *("vehicle", "vehicles", "vehicle_id", "num_vehicles", "number_of_vehicles", "max_vehicles"),
        *("fleet", "fleet_size", "fleet_limit", "max_routes", "driver", "drivers"),
    },
    "a longest route (--longest-route)": {
        *("longest_route", "max_distance", "max_length", "max_route_length", "distance_limit"),
    },
    "a time window": {
        *("time_window", "time_windows", "timewindow", "window", "tw", "tw_start", "tw_end", "tw_open"),
        *("tw_close", "window_start", "window_end", "ready", "ready_time", "due", "due_time", "due_date"),
        *("earliest", "latest", "open", "close", "opens", "closes", "not_before", "not_after", "deadline"),
        *("start_time", "end_time", "duration"),
    },
}


@dataclass(frozen=True)
class Day:
    """Orders of a day as an instance."""

    source: str  # name of the file, or "orders"
    instance: Instance  # one order per customer, without the `oversized`
    orders: int  # number of orders before merging
    further: Mapping[str, Mapping[int, str]] = field(default_factory=dict)  # other columns, text by node
    dialect: Dialect = PLAIN  # of `Tabular`
    notes: tuple[str, ...] = ()  # assumptions made in reading the file, and unused columns, one sentence each
    wishes: Wishes = field(default_factory=Wishes)
    oversized: Mapping[int, int] = field(default_factory=dict)  # demands above the capacity, by node

    @property
    def demands(self) -> dict[int, int]:
        """Demand of each customer by node, ascending, of the `oversized`, too."""
        fitting = zip(self.instance.ids.tolist(), self.instance.demands.tolist(), strict=True)
        return dict(sorted([*fitting, *self.oversized.items()]))


def read_orders(
    orders: str | pd.DataFrame | Sequence[Order], store: Store, sheet: str | None = None
) -> Tabular:
    """Return orders as a table; McvrpError if there is no such file, or it is not a table.

    ``orders`` is a file as in `file_bytes`, with a ``sheet`` of `read_tabular`, the lines of a table, a
    table, or a list of orders.
    """
    if not isinstance(orders, str):
        if not len(orders):
            raise McvrpError("the list of orders is empty: add orders")
        rows = None if isinstance(orders, pd.DataFrame) else [order.model_dump() for order in orders]
        return Tabular.of("orders", pd.DataFrame(orders if rows is None else rows).reset_index(drop=True))
    if is_pasted(orders):
        return read_tabular("pasted orders", orders.strip().encode())
    return read_tabular(*file_bytes(store, orders), sheet)


def checked_day(
    table: Tabular,
    city: City,
    addresses: Addresses,
    name: str,
    capacity: int | None = None,
    spec: SolveSpec | None = None,
    date: datetime.date | None = None,
) -> Day:
    """Return the orders of ``table`` as an instance of the city ``name``, those of ``date`` (see `rows_of`).

    ``capacity`` may be None if a column defines it, or if all vehicles of the city have the same. Columns
    have the names that ``spec`` gives to fields, otherwise the city's if there are such columns. Service
    times and priorities are read if ``spec`` has a shift, or allows to leave out customers.

    Raises McvrpError if columns are missing or request constraints that are not supported, the capacity is
    unknown, or rows have faults, which are all listed.
    """
    spec = spec or SolveSpec()
    table = table.calling({**addresses.columns, **spec.columns}, spec.columns.keys() - _OF_ROUTES)
    customer = _customer_column(table)
    table = rows_of(table, date, addresses.dates, name)
    faults = Faults(table.name)
    limit = _capacity(table, city, capacity, faults)
    ids = table.ids(customer).tolist()
    at = addresses.nodes(ids).tolist()
    demands = _demands(table, ids, at, name, faults)
    nodes = sorted(demands)
    names = dict(zip(nodes, addresses.names(nodes), strict=True))
    total = {node: sum(demands[node]) for node in nodes}
    oversized = {node: total[node] for node in nodes if spec.drop and total[node] > limit}
    if len(oversized) == len(nodes):
        oversized = {}  # nobody is left to route: faults
    for node in nodes:
        row = table.rows[at.index(node)]
        orders = f" in {len(demands[node])} orders" if len(demands[node]) > 1 else ""
        subject = f"customer {shown(names[node])} has a demand of {total[node]:,}{orders}"
        if total[node] > limit and node not in oversized:
            mend = f"{SPLIT}{'' if spec.drop else ', or leave it out (--drop)'}"
            faults.at(row, f"{subject}, more than the capacity of a vehicle, {limit:,}: {mend}")
        elif total[node] > MOST and node not in oversized:
            faults.at(row, f"{subject}, more than {MOST:,}: use a larger unit")
    wishes = read_wishes(table, at, spec, faults)
    faults.check()
    fitting = [node for node in nodes if node not in oversized]
    instance = Instance(city.city_id, np.array(fitting), np.array([total[node] for node in fitting]), limit)
    day = table.column(_DATE) if date else None
    timed = day and any(len(cell) > len("2026-01-31") for cell in table.text(day))  # which drivers need
    used = [customer, table.column(_DEMAND), table.column(_CAPACITY), *wishes.columns]
    others = table.others([*used, None if timed else day])
    notes = [*table.notes, *notes_on(table, others, wishes, spec)]
    dated = [title for title, cells in others.items() if _of_days(cells)]
    if dated and table.column(_DATE) is None:
        texts = {title: without_time(pd.Series(others[title])) for title in dated}
        days = {title: dates(text, addresses.dates).dt.date for title, text in texts.items()}
        if choices := [title for title in dated if date in set(days[title])]:
            raise McvrpError(
                f"{table.name} has no column date for --date {date}, but several days in {listed(choices)}: "
                f"name that of the orders (--columns {shown(f'date={choices[0]}')}), or omit --date"
            )
        notes.append(
            f"{listed(dated)}: dates of several days, and all are routed; name the date of the orders "
            "(--columns date=NAME) to choose a day (--date)"
        )
    if merged := [k for k in nodes if len(demands[k]) > 1]:
        each = (f"{len(demands[k])} of {shown(names[k])} into one of {total[k]:,}" for k in merged)
        notes.append(f"orders of the same customer merged: {listed(each)}")
    further, dialect = _further(others, at), table.dialect
    return Day(table.name, instance, len(table), further, dialect, tuple(notes), wishes, oversized)


def rows_of(
    table: Tabular, date: datetime.date | None, order: DateOrder | None = None, city: str = "CITY"
) -> Tabular:
    """Return the rows of ``table`` that are of ``date``, by its column of dates; None: all, if of one day.

    ``order`` is that of day and month in dates such as 02/11/2026, see `tasks.files.cells.dates`,
    ``city`` the name of the city.
    Without dates all rows are of the day, with a note. Raises McvrpError with the number of rows per day if
    there is none of ``date``, or several days without it; with both, naming the cells that are not clearly
    dates.
    """
    column = table.column(_DATE)
    cells = table.text(column) if column else np.array([])
    if date and not any(cells):
        note = f"{table.name} has no column date: all of its rows are taken as those of {date}"
        return replace(table, notes=(*table.notes, note))
    if date is None and len(set(cells)) <= 1:
        return table
    text, faults = without_time(pd.Series(cells, dtype="string")), Faults(table.name)
    days, undeclared = dates(text, order), lack_order(text, order)
    for k in np.flatnonzero(days.isna()):
        unclear = f"{shown(cells[k])}, not a date like 2026-01-31 or 31.01.2026"
        if undeclared[k]:
            unclear += f": declare its order (mcvrp city set {city} --dates day-first|month-first)"
        faults.at(table.rows[k], f"{table.titles[str(column)]} is {unclear if cells[k] else 'missing'}")
    faults.check()
    counts = days.dt.date.value_counts().sort_index()
    chosen = np.ones(len(table), bool) if date is None else (days.dt.date == date).to_numpy()
    if (date is None and len(counts) > 1) or not chosen.any():
        of = listed(f"{day} ({count:,})" for day, count in counts.items())
        found = f"no row of {date}, but of {of}" if date else f"rows of {len(counts):,} days, {of}"
        raise McvrpError(f"{table.name} has {found}: choose one with --date, or correct the file")
    if chosen.all():
        return table
    note = f"{chosen.sum():,} of {len(table):,} rows of {table.name} are of {date}, the others were left out"
    return replace(table.where(chosen), notes=(*table.notes, note))


def without_time(text: pd.Series[str]) -> pd.Series[str]:
    """Return dates, or the dates of dates with a time, as text."""
    return text.str.split("[ T]", n=1, regex=True).str[0]


def _of_days(cells: Sequence[str]) -> bool:
    """Return whether ``cells``, unless empty, are dates of several days."""
    days = {re.split("[ T]", cell, maxsplit=1)[0] for cell in cells if cell}
    return len(days) > 1 and all(map(_LIKE_DATE.fullmatch, days))


def _further(others: Mapping[str, Sequence[str]], nodes: list[int]) -> dict[str, dict[int, str]]:
    """Return the other columns by node; different texts of several orders are joined."""
    further: dict[str, dict[int, str]] = {}
    for title, texts in others.items():
        by_node: dict[int, dict[str, None]] = {}
        for node, text in zip(nodes, texts, strict=True):
            if text:
                by_node.setdefault(node, {})[text] = None
        further[title] = {
            node: "; ".join(each) if len(each) > 1 else next(iter(each)) for node, each in by_node.items()
        }
    return further


def _demands(
    table: Tabular, customers: list[str], nodes: list[int], city: str, faults: Faults
) -> dict[int, list[int]]:
    demands: dict[int, list[int]] = {}
    column = table.column(_DEMAND)
    assert column  # checked by `_customer_column`
    numbers = table.whole_numbers(column, 1, MOST, faults).tolist()
    for row, customer, node, demand in zip(table.rows.tolist(), customers, nodes, numbers, strict=True):
        if fault := _customer_fault(customer, node, city):
            faults.at(row, fault)
        else:
            demands.setdefault(node, []).append(demand)
    return demands


def _customer_fault(customer: str, node: int, city: str) -> str | None:
    if not customer:
        return "customer is missing"
    if node == UNKNOWN:
        return f"{shown(customer)} is not a customer of city {city!r}"
    return f"{shown(customer)} is the depot" if node == DEPOT else None


def require_file_of_routes(columns: Collection[str], keep: object) -> None:
    """Raise McvrpError if ``columns`` has a field of decided routes, and their file is not given."""
    if not keep and (unread := _OF_ROUTES & set(columns)):
        raise McvrpError(
            f"--columns {min(unread)}=… is of decided routes, but --keep is not given: remove it"
        )


def _customer_column(table: Tabular) -> str:
    """Return the name of the column of customers; McvrpError if columns are missing or not supported."""
    customer = table.column(*_CUSTOMER) or table.column(_ID)
    if customer is None or table.column(_DEMAND) is None:
        missing = "customer (or id)" if customer is None else _DEMAND
        raise table.lacks(missing, "add it, or name it in --columns")
    for what, names in _REFUSED.items():
        for column in table.frame.columns:
            own = column in table.called.values()
            if column in names and not own and any(table.text(column)):
                raise McvrpError(
                    f"the column {table.titles[column]} of {table.name} asks for {what}, and no route "
                    "respects that column: remove it to route without, knowing that"
                )
    return customer


def _capacity(table: Tabular, city: City, option: int | None, faults: Faults) -> int:
    """Return the capacity of a vehicle; the largest possible one, and a fault, if nothing defines it."""
    in_table = _capacity_column(table)
    if option is not None:
        if not 1 <= option <= MOST_CAPACITY:
            raise McvrpError(f"a capacity is a whole number from 1 to {MOST_CAPACITY:,}, not {option:,}")
        if in_table not in (None, option):
            raise McvrpError(
                f"the capacity is {option:,} as an option and {in_table:,} in {table.name}: keep one"
            )
        return option
    if in_table is not None:
        return in_table
    if city.capacity is not None and city.capacity[0] == city.capacity[1]:
        return city.capacity[0]
    in_city = f" (in this city {city.capacity[0]:,} to {city.capacity[1]:,})" if city.capacity else ""
    faults.add(f"no capacity of a vehicle{in_city}: give it (--capacity), or add a column capacity")
    return MOST_CAPACITY


def _capacity_column(table: Tabular) -> int | None:
    if (column := table.column(_CAPACITY)) is None:
        return None
    filled, faults, rows = table.where(table.text(column) != ""), Faults(table.name), dict[int, int]()
    for number, row in zip(
        filled.whole_numbers(column, 1, MOST_CAPACITY, faults).tolist(), filled.rows.tolist(), strict=True
    ):
        rows.setdefault(number, row)
    faults.check()
    if len(rows) > 1:
        (one, first), (other, second) = list(rows.items())[:2]
        raise McvrpError(
            f"{table.name} has two capacities, {one:,} in row {first} and {other:,} in row {second}: keep "
            "one, because all vehicles have the same capacity"
        )
    return next(iter(rows), None)
