"""A day's orders: read from what people bring, checked against the city, merged into an instance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from mcvrp.model.errors import McvrpError, brief, shown
from mcvrp.model.problem import DEPOT, City, Instance
from mcvrp.storage.cities import UNKNOWN, Addresses
from mcvrp.storage.store.store import Store
from mcvrp.tasks.files.faults import Faults
from mcvrp.tasks.files.file_bytes import file_bytes, stored_bytes
from mcvrp.tasks.files.numbers import whole
from mcvrp.tasks.files.tabular import Tabular, read_tabular
from mcvrp.tasks.solve.spec import Order
from mcvrp.tasks.support.text import FLEET, LENGTH, TIME, listed, refusal

MOST = 2**16 - 1  # of a demand: instances keep them in 16 bits
MOST_CAPACITY = 2**24  # the network's float32 counts loads exactly up to here
_CUSTOMER, _ID, _DEMAND, _CAPACITY = ("customer", "customer_id"), "id", "demand", "capacity"
# What a column may say that no route here would respect: better no answer than one that ignores it.
_REFUSED = {
    FLEET: {
        *("vehicle", "vehicles", "vehicle_id", "num_vehicles", "number_of_vehicles", "max_vehicles"),
        *("fleet", "fleet_size", "fleet_limit", "max_routes", "driver", "drivers"),
    },
    LENGTH: {"longest_route", "max_distance", "max_length", "max_route_length", "distance_limit"},
    TIME: {
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
    notes
        What had to be guessed to read them, a sentence each.
    """

    source: str
    instance: Instance
    orders: int
    merged: tuple[Merged, ...] = ()
    ignored: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def read_orders(orders: str | Sequence[Order], store: Store) -> Tabular:
    """Return orders as a table: those of a file, or the ones that are given.

    Parameters
    ----------
    orders
        A file here, one at an ``s3://`` address, one in the store ("store:PATH"), or the orders. Those of an
        instance of CVRPLIB are `VrpFile.orders`.

    Raises
    ------
    McvrpError
        If there is no such file, or it is no table.
    """
    if not isinstance(orders, str):
        if not orders:
            raise McvrpError("there are no orders in the list: add some")
        frame = pd.DataFrame([order.model_dump() for order in orders])
        return _renamed(Tabular("orders", frame, np.arange(1, len(frame) + 1)))
    if "://" in orders:
        folder, _, name = orders.rpartition("/")
        return _renamed(read_tabular(*stored_bytes(Store.open(folder, writable=False), name)))
    return _renamed(read_tabular(*file_bytes(store, orders)))


def checked_day(
    table: Tabular, city: City, addresses: Addresses, name: str, capacity: int | None = None
) -> Day:
    """Return the orders of ``table`` as an instance of the city.

    Parameters
    ----------
    name
        Of the city, for messages.
    capacity
        What a vehicle holds; None where a column says it, or all vehicles of the city hold the same.

    Raises
    ------
    McvrpError
        If columns are missing or ask for what routes here do not respect, no capacity is known, or
        rows have faults: all of them at once.
    """
    customer = _customer_column(table)
    holds = _capacity(table, city, capacity)
    faults = Faults(table.name)
    ids, demands = table.text(customer).tolist(), table.text(_DEMAND).tolist()
    wanted: dict[int, list[int]] = {}
    for row, id_, demand, node in zip(
        table.rows.tolist(), ids, demands, addresses.nodes(ids).tolist(), strict=True
    ):
        wrong = list(_wrong(id_, demand, node, name))
        for text in wrong:
            faults.at(row, text)
        if not wrong:
            wanted.setdefault(node, []).append(whole(demand) or 0)
    nodes = sorted(wanted)
    names = dict(zip(nodes, addresses.names(nodes), strict=True))
    total = {node: sum(wanted[node]) for node in nodes}
    for node in nodes:
        together = f" in {len(wanted[node])} orders" if len(wanted[node]) > 1 else ""
        wants = f"customer {shown(names[node])} wants {total[node]:,}{together}"
        if total[node] > holds:
            faults.add(f"{wants}, a vehicle holds {holds:,}")
        elif total[node] > MOST:
            faults.add(f"{wants}, more than {MOST:,}: count in a larger unit")
    faults.check()
    instance = Instance(city.city_id, np.array(nodes), np.array([total[node] for node in nodes]), holds)
    merged = tuple(Merged(names[k], len(wanted[k]), total[k]) for k in nodes if len(wanted[k]) > 1)
    ignored = tuple(c for c in table.frame.columns if c not in (customer, _DEMAND, _CAPACITY))
    return Day(table.name, instance, len(table), merged, ignored, table.notes)


def _renamed(table: Tabular) -> Tabular:
    """Return ``table`` with its columns as we call them: "Customer-ID" is customer_id."""
    names = ["_".join(str(column).casefold().replace("-", " ").split()) for column in table.frame.columns]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise McvrpError(f"{table.name} has two columns {twice[0]}: keep one of them")
    return replace(table, frame=table.frame.set_axis(names, axis=1))


def _customer_column(table: Tabular) -> str:
    """Return the name of the column of customers, having looked for what must and must not be there."""
    customer = table.column(*_CUSTOMER) or table.column(_ID)
    if customer is None or _DEMAND not in table.frame:
        lacks = "customer (or id)" if customer is None else _DEMAND
        raise McvrpError(
            f"{table.name} has no column {lacks} (there are {listed(table.frame.columns, most=8)}): add it"
        )
    for what, names in _REFUSED.items():
        for column in table.frame.columns:
            if column in names and any(table.text(column)):
                raise McvrpError(refusal(f"the column {column} of {table.name}", what, "remove it"))
    return customer


def _capacity(table: Tabular, city: City, given: int | None) -> int:
    said: dict[int, int] = {}  # capacity, the first row that says it
    if _CAPACITY in table.frame:
        faults = Faults(table.name)
        for row, cell in zip(table.rows.tolist(), table.text(_CAPACITY).tolist(), strict=True):
            number = whole(cell)
            if cell and not (number and 1 <= number <= MOST_CAPACITY):
                what = f"is no whole number from 1 to {MOST_CAPACITY:,}"
                faults.at(row, f"capacity {shown(cell)} {what}")
            elif number:
                said.setdefault(number, row)
        faults.check()
    if len(said) > 1:
        (one, first), (other, second) = list(said.items())[:2]
        raise McvrpError(
            f"{table.name} has two capacities, {one:,} in row {first} and {other:,} in row {second}: "
            "give one, as all vehicles hold the same here"
        )
    if given is not None:
        if not 1 <= given <= MOST_CAPACITY:
            raise McvrpError(f"a capacity is a whole number from 1 to {MOST_CAPACITY:,}, not {given:,}")
        if said and given not in said:
            raise McvrpError(
                f"the capacity is {given:,} as an option and {next(iter(said)):,} in {table.name}: keep one"
            )
        return given
    if said:
        return next(iter(said))
    if city.capacity is not None and city.capacity[0] == city.capacity[1]:
        return city.capacity[0]
    known = f" (in this city {city.capacity[0]:,} to {city.capacity[1]:,})" if city.capacity else ""
    raise McvrpError(
        f"{table.name} does not say what a vehicle holds{known}: give --capacity, or a column capacity"
    )


def _wrong(customer: str, demand: str, node: int, city: str) -> Iterator[str]:
    if not customer:
        yield "customer is missing"
    elif node == UNKNOWN:
        yield f"{shown(customer)} is no customer of city {city!r}"
    elif node == DEPOT:
        yield f"{shown(customer)} is the depot"
    amount = whole(demand)
    if not demand:
        yield "demand is missing"
    elif amount is None:
        yield f"demand {shown(demand)} is no whole number"
    elif amount < 1:
        yield f"demand {brief(demand, 40)} is not positive"
    elif amount > MOST:
        yield f"demand {shown(demand)} is more than {MOST:,}: count in a larger unit"
