"""Limits of a day beside the capacity: who does not keep them and what no routes can, said before work."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mcvrp.model.errors import McvrpError, shown
from mcvrp.model.problem import COST_TOLERANCE, City, Instance
from mcvrp.storage.cities import Addresses
from mcvrp.tasks.solve.spec import SolveSpec
from mcvrp.tasks.solvers.packing import fewest_vehicles
from mcvrp.tasks.solvers.registry import SOLVERS, finishers
from mcvrp.tasks.solvers.solver import Limits
from mcvrp.tasks.support.text import unit_text


def limits_text(limits: Limits) -> str:
    """Return ``limits`` as options: "--fleet 5 and --longest-route 20000"."""
    options = (f"--{name.replace('_', '-')} {value:.10g}" for name, value in limits.given.items())
    return " and ".join(options)


def require_kept(spec: SolveSpec) -> None:
    """Raise McvrpError where the polish of ``spec`` does not keep its limits.

    Without samples nothing is polished: who searches then is chosen by what it keeps, unless it is named.
    """
    keepers = [name for name in finishers() if SOLVERS[name].keeps(spec.limits)]
    chosen = not spec.samples and spec.polish not in finishers()
    if spec.limits.given and not chosen and spec.polish not in keepers:
        raise McvrpError(
            f"--polish {spec.polish} does not keep {limits_text(spec.limits)}: give --polish "
            f"{' or '.join(keepers)}, which does"
        )


def require_possible(limits: Limits, city: City, addresses: Addresses, instance: Instance) -> None:
    """Check that there may be routes which keep ``limits``.

    Raises
    ------
    McvrpError
        If the orders need more vehicles, or a customer is too far away.
    """
    needed = fewest_vehicles(instance)
    if limits.fleet is not None and limits.fleet < needed:
        raise McvrpError(
            f"--fleet {limits.fleet} is too few: the orders want {int(instance.demands.sum()):,} in all and "
            f"a vehicle holds {instance.capacity:,}, which takes {needed:,} vehicles at least: give "
            "as many, or larger ones"
        )
    if limits.longest_route is None:
        return
    lengths = _there_and_back(city, instance)
    far = int((lengths > limits.longest_route * (1 + COST_TOLERANCE)).sum())
    if far:
        worst = int(lengths.argmax())
        (name,) = addresses.names([int(instance.ids[worst])])
        more = f" (and {far - 1:,} more)" if far > 1 else ""
        raise McvrpError(
            f"customer {shown(name)}{more} is too far for --longest-route {limits.longest_route:.10g}: "
            f"there and back it is {lengths[worst]:,.10g} {unit_text(city.unit)}, give that much or none"
        )


def _there_and_back(city: City, instance: Instance) -> NDArray[np.float64]:
    """Return what the way to each customer and back costs at least, ``(n,)``.

    In a matrix the way over others of the day may be cheaper than the direct one.
    """
    costs = city.costs(instance.nodes)
    if city.matrix is None:
        return 2 * costs[0, 1:]
    return _cheapest_ways(costs)[1:] + _cheapest_ways(costs.T)[1:]


def _cheapest_ways(costs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what the cheapest way from the depot to each node costs, ``(n + 1,)`` (Bellman and Ford)."""
    ways = costs[0]
    while ((shorter := (ways[:, None] + costs).min(axis=0)) < ways).any():
        ways = np.minimum(ways, shorter)
    return ways
