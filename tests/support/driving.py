"""Files of driven routes, in the layout that a night takes."""

from __future__ import annotations

from collections.abc import Iterable

from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City, Instance, Solution
from mcvrp.storage.store.store import Store
from tests.support.sweep import sweep


def put_routes(store: Store, path: str, days: Iterable[tuple[str, Instance, Solution]]) -> None:
    """Write the routes of days, each with its date, to one CSV file."""
    lines = ["date,route,stop,customer,demand,capacity"]
    for date, instance, solution in days:
        demand = dict(zip(instance.ids.tolist(), instance.demands.tolist(), strict=True))
        for k, route in enumerate(solution.routes):
            lines += [
                f"{date},{k},{stop},{node},{demand[node]},{instance.capacity}"
                for stop, node in enumerate(route, start=1)
            ]
    store.put(path, ("\n".join(lines) + "\n").encode())


def drive(store: Store, city: City, days: int) -> None:
    """Put the sweep's routes of so many days of March into the incoming folder."""
    stream = InstanceStream(city, 7, "train")
    instances = {f"2026-03-{day:02}": stream(20 + day % 3, day) for day in range(1, days + 1)}
    driven = ((date, instance, sweep(city, instance)) for date, instance in instances.items())
    put_routes(store, "incoming/march.csv", driven)
