"""City of a day's orders if none is named: the only one of several that has all their customers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mcvrp.model.errors import McvrpError, enumerated, shown
from mcvrp.model.problem import DEPOT
from mcvrp.storage.cities import stored_city
from mcvrp.storage.store.store import Store
from mcvrp.tasks.solve.orders import customers_of, read_orders

_LISTED = 150  # characters of a list of cities


def owner(store: Store, cities: Sequence[str], orders: str, columns: Mapping[str, str]) -> str:
    """Return the only one of ``cities`` that has all customers of ``orders``, a file as in `read_orders`.

    ``columns`` are names of columns in the file, otherwise those of each city. McvrpError if several cities
    have all customers, none has, or the file has no column of customers.
    """
    table, lacking, fault = read_orders(orders, store), dict[str, list[str]](), None
    for name in cities:
        addresses = stored_city(store, name).addresses
        try:
            customers = list(filter(None, customers_of(table, addresses, columns)))
        except McvrpError as error:  # columns may have the names of another city
            fault = error
            continue
        nodes = addresses.nodes(customers).tolist()
        lacking[name] = [customer for customer, node in zip(customers, nodes, strict=True) if node <= DEPOT]
    if fault and not lacking:
        raise fault
    owners = [name for name, them in lacking.items() if not them]
    if len(owners) == 1:
        return owners[0]
    if owners:
        names = enumerated([shown(name) for name in owners], ", ", _LISTED)
        raise McvrpError(f"{table.name}: several cities have all its customers, {names}: name one by --city")
    texts = [f"{name} lacks {len(them)}, such as {shown(them[0])}" for name, them in lacking.items()]
    raise McvrpError(
        f"{table.name}: no city has all its customers ({enumerated(texts, ', ', _LISTED)}): correct them, or "
        "name its city by --city"
    )
