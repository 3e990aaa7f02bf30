"""Routes of a sweep instead of a solver: labels and driven days; and an instance that no solver survives."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from mcvrp.model.canonical_form import canonical, route_angles
from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City, Instance, Solution, cost
from mcvrp.storage.driven import driven_days
from mcvrp.storage.labels.schema import SOLVED, Label
from mcvrp.storage.store.store import Store

CITY = City.uniform(60, seed=3)
N = 20  # customers

# Python imports it when it starts: the solver of that process then meets an instance it cannot stand.
_POISONED_SOLVER = """
import os, pathlib, signal, time
import hybgensea
solve = hybgensea.solve_cvrp

def poisoned(x, y, demands, capacity, **options):
    if [capacity, *demands[1:]] == {mark}:
        {action}
    return solve(x, y, demands, capacity, **options)

hybgensea.solve_cvrp = poisoned
"""


def sweep(city: City, instance: Instance) -> Solution:
    """Return routes that pick customers by their angle until the vehicle is full: feasible, not good."""
    order = np.argsort(route_angles(city, instance.ids[:, None].tolist()))
    routes: list[list[int]] = []
    room = 0
    for k in order:
        demand = int(instance.demands[k])
        if demand > room:
            routes.append([])
            room = instance.capacity
        routes[-1].append(int(instance.ids[k]))
        room -= demand
    return canonical(city, Solution.of(routes))


def label_of(
    city: City,
    instance: Instance,
    i: int,
    solution: Solution | None = None,
    seed: int = 0,
    seconds: float = 0,
) -> Label:
    """Return ``solution``, else that of the sweep, as the label of the ``i``-th instance."""
    solution = solution or sweep(city, instance)
    price = cost(city, solution)
    return Label(i, instance, solution, price, SOLVED, "sweep", "sweep 1", seed, "none", seconds, "abacus")


def some_label(i: int, n: int = N, runtime: float = 0.1) -> Label:
    """Return the label of instance (n, i) of `CITY`, with the largest seed that there is."""
    instance = InstanceStream(CITY, 1, "train")(n, i)
    return label_of(CITY, instance, i, seed=2**64 - 1, seconds=runtime)


def poison(folder: Path, city: City, n: int, i: int, action: str) -> None:
    """Have HGS do ``action`` at instance (n, i) of seed 1 in every Python that looks into ``folder``."""
    instance = InstanceStream(city, 1, "train")(n, i)
    mark = [instance.capacity, *map(float, instance.demands)]
    (folder / "sitecustomize.py").write_text(_POISONED_SOLVER.format(mark=mark, action=action))


def put_routes(store: Store, path: str, days: Iterable[tuple[str, Instance, Solution]]) -> None:
    """Write the routes of days, each with its date, to one CSV file, as a night takes it."""
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


def driven_label(store: Store, city: str, date: str) -> Label:
    """Return the label of a driven day."""
    return next(day.label for day in driven_days(store, city) if day.date.isoformat() == date)
