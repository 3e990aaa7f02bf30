"""Route files as people bring them: what the sweep would have driven."""

from __future__ import annotations

from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City
from mcvrp.storage.store.store import Store
from tests.support.sweep import sweep


def drive(store: Store, city: City, days: int) -> None:
    """Put the sweep's routes of so many days of March into the incoming folder."""
    stream = InstanceStream(city, 7, "train")
    lines = ["date,route,stop,customer,demand,capacity"]
    for day in range(1, days + 1):
        instance = stream(20 + day % 3, day)
        demand = dict(zip(instance.ids.tolist(), instance.demands.tolist(), strict=True))
        for k, route in enumerate(sweep(city, instance).routes):
            lines += [
                f"2026-03-{day:02},{k},{stop},{node},{demand[node]},{instance.capacity}"
                for stop, node in enumerate(route, start=1)
            ]
    store.put("incoming/march.csv", ("\n".join(lines) + "\n").encode())
