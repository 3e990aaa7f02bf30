"""Labels without a solver: the routes of a sweep."""

from __future__ import annotations

from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City, Instance, Solution, cost
from mcvrp.storage.labels.schema import SOLVED, Label
from tests.support.sweep import sweep

CITY = City.uniform(60, seed=3)
N = 20  # customers


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
