"""A day's orders: read from what people bring, checked against the city, merged into an instance."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from model.errors import McvrpError, reason
from model.problem import DEPOT, City, Instance
from storage.cities import Addresses
from storage.store import Store
from tasks.order_table import Row, Table, read_table, table_of
from tasks.solve_spec import Order

MOST = 65_535  # of a demand and of a capacity, as labels and instances keep them
_SHOWN = 5  # faults that are told; the others are counted
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")
_CUSTOMER = ("customer", "customer_id", "customerid", "id")  # the first that is there
_DEMAND, _CAPACITY = "demand", "capacity"
# What a column may say that no route here would respect: better no answer than one that ignores it.
_REFUSED = {
    "a limit of the fleet": {
        *("vehicle", "vehicles", "vehicle_id", "num_vehicles", "number_of_vehicles", "max_vehicles"),
        *("fleet", "fleet_size", "fleet_limit", "max_routes", "driver", "drivers"),
    },
    "a time window": {
        *("time_window", "time_windows", "timewindow", "window", "tw", "tw_start", "tw_end", "tw_open"),
        *("tw_close", "window_start", "window_end", "ready", "ready_time", "due", "due_time", "due_date"),
        *("earliest", "latest", "open", "close", "opens", "closes", "not_before", "not_after", "deadline"),
        *("start_time", "end_time", "service", "service_time", "service_duration", "duration"),
    },
}


@dataclass(frozen=True)
class Merged:
    """Several orders of one customer that have become one."""

    customer: str
    orders: int
    demand: int


@dataclass(frozen=True)
class Day:
    """A day's orders as they are solved, and what has been done to them.

    Parameters
    ----------
    source
        Where they come from: a file's name, or "orders".
    instance
        The orders, one a customer.
    orders
        How many there were.
    merged
        The customers with more than one.
    ignored
        Columns that were not read.
    """

    source: str
    instance: Instance
    orders: int
    merged: tuple[Merged, ...] = ()
    ignored: tuple[str, ...] = ()


def read_orders(orders: str | Sequence[Order], store: Store) -> Table:
    """Return the orders as a table: from a file, an ``s3://`` address, a name in the store, or as given.

    Raises
    ------
    McvrpError
        If there is no such file, or it is no table.
    """
    if not isinstance(orders, str):
        return table_of([order.model_dump() for order in orders], "orders")
    if "://" in orders:
        folder, _, name = orders.rpartition("/")
        return read_table(Store.open(folder, writable=False).get(name), name)
    path, name = Path(orders), PurePosixPath(orders).name
    try:
        return read_table(path.read_bytes(), path.name)
    except FileNotFoundError:
        if path.is_absolute() or ".." in path.parts or not store.exists(orders):
            raise McvrpError(f"there is no file {orders} with orders") from None
        return read_table(store.get(orders), name)
    except OSError as error:
        raise McvrpError(f"cannot read the orders in {orders} ({reason(error)})") from error


def checked_day(
    table: Table, city: City, addresses: Addresses, name: str, capacity: int | None = None
) -> Day:
    """Return the orders of ``table`` as an instance of the city.

    Parameters
    ----------
    name
        Of the city, for messages.
    capacity
        What a vehicle holds; None where the table has a column that says it.

    Raises
    ------
    McvrpError
        If columns are missing or ask for what routes here do not respect, no capacity is given, or
        rows have faults: then it names them all, the first few by their text.
    """
    customer = _columns(table)
    if not table.rows:
        raise McvrpError(f"{table.source} has a header and no orders")
    holds = _capacity(table, city, capacity)
    faults: list[str] = []
    wanted: dict[int, list[int]] = {}
    nodes = addresses.nodes(table.cells(customer)).tolist()
    for row, id_, demand, node in zip(
        table.rows, table.cells(customer), table.cells(_DEMAND), nodes, strict=True
    ):
        found = list(_faults(row, id_, demand, node, name))
        faults += found
        if not found:
            wanted.setdefault(node, []).append(int(float(demand)))
    names = {node: addresses.ids[node] for node in wanted}
    for node, demands in wanted.items():
        if sum(demands) > holds:
            together = f" in {len(demands)} orders" if len(demands) > 1 else ""
            faults.append(
                f"customer {names[node]!r} wants {sum(demands):,}{together}, a vehicle holds {holds:,}"
            )
    if faults:
        more = f" (and {len(faults) - _SHOWN:,} more)" if len(faults) > _SHOWN else ""
        raise McvrpError(f"{table.source}: {'; '.join(faults[:_SHOWN])}{more}")
    ids = sorted(wanted)
    instance = Instance(city.city_id, np.array(ids), np.array([sum(wanted[k]) for k in ids]), holds)
    merged = tuple(Merged(names[k], len(wanted[k]), sum(wanted[k])) for k in ids if len(wanted[k]) > 1)
    read = (customer, _DEMAND, _CAPACITY)
    ignored = tuple(column for column in table.columns if column not in read and column)
    return Day(table.source, instance, len(table.rows), merged, ignored)


def _columns(table: Table) -> str:
    """Return the name of the column of customers, having looked for what must and must not be there."""
    customer = next((name for name in _CUSTOMER if name in table.columns), None)
    missing = [
        words
        for words, there in (
            ("the customer ('customer' or 'id')", customer is not None),
            ("'demand'", _DEMAND in table.columns),
        )
        if not there
    ]
    if missing:
        has = ", ".join(map(repr, table.columns[:10])) or "none"
        raise McvrpError(f"{table.source} has no column for {' and none for '.join(missing)}; it has {has}")
    for what, names in _REFUSED.items():
        for column in table.columns:
            if column in names and any(table.cells(column)):
                raise McvrpError(refusal(f"column {column!r} of {table.source}", what, "remove the column"))
    assert customer is not None
    return customer


def refusal(where: str, what: str, mend: str) -> str:
    """Return the sentence that refuses ``what``, found at ``where``."""
    return (
        f"{where} asks for {what}, and routes here know capacity alone: {mend} to route without, "
        "knowing that nothing will respect it"
    )


FLEET, TIME = _REFUSED


def _capacity(table: Table, city: City, given: int | None) -> int:
    cells = table.cells(_CAPACITY) if _CAPACITY in table.columns else []
    said: dict[int, int] = {}  # capacity, the first row that says it
    for row, cell in zip(table.rows, cells, strict=False):
        if cell:
            if not _whole(cell) or not 1 <= float(cell) <= MOST:
                raise McvrpError(
                    f"row {row.number} of {table.source}: a capacity is a whole number from 1 to "
                    f"{MOST:,}, not {cell!r}"
                )
            said.setdefault(int(float(cell)), row.number)
    if len(said) > 1:
        (one, first), (other, second) = list(said.items())[:2]
        raise McvrpError(
            f"{table.source} has two capacities, {one:,} in row {first} and {other:,} in row {second}: "
            "all vehicles hold the same here"
        )
    if given is not None:
        if not 1 <= given <= MOST:
            raise McvrpError(f"a capacity is a whole number from 1 to {MOST:,}, not {given:,}")
        if said and given not in said:
            raise McvrpError(
                f"the capacity is {given:,} as an option and {next(iter(said)):,} in {table.source}: give one"
            )
        return given
    if not said:
        raise McvrpError(
            f"nobody says what a vehicle holds: give --capacity, or a column 'capacity' in {table.source}"
        )
    return next(iter(said))


def _faults(row: Row, customer: str, demand: str, node: int, city: str) -> Iterator[str]:
    where = f"row {row.number}"
    if not customer:
        yield f"{where} names no customer"
    elif node == DEPOT:
        yield f"{where}: {_shown(customer)} is the depot"
    elif node < 0:
        yield f"{where}: {_shown(customer)} is no customer of city {city!r}"
    if not demand:
        yield f"{where} has no demand"
    elif not _whole(demand):
        yield f"{where}: demand {_shown(demand)} is no whole number"
    elif float(demand) < 1:
        yield f"{where}: demand {_shown(demand)} is not positive"
    elif float(demand) > MOST:
        yield f"{where}: demand {_shown(demand)} is more than {MOST:,}: count in a larger unit"


def _whole(text: str) -> bool:
    return bool(_NUMBER.fullmatch(text)) and float(text).is_integer()


def _shown(text: str) -> str:
    return repr(text if len(text) <= 30 else f"{text[:27]}...")
