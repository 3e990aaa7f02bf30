"""Limits of a day besides the capacity: checks that they are supported and feasible, before any work."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mcvrp.model.errors import McvrpError, shown
from mcvrp.model.problem import COST_TOLERANCE, City, Instance
from mcvrp.storage.cities import Addresses
from mcvrp.tasks.solve.spec import AUTO, SolveSpec
from mcvrp.tasks.solvers.registry import SOLVERS, finishers
from mcvrp.tasks.solvers.searches import fewest_vehicles
from mcvrp.tasks.solvers.solver import Limits
from mcvrp.tasks.support.text import METRES, exact_length, readable_unit


def limits_text(limits: Limits, unit: str) -> str:
    """Return ``limits`` of a city with costs in ``unit`` as options: "--fleet 5 and --longest-route 20km"."""
    options = [f"--fleet {limits.fleet}"] if limits.fleet is not None else []
    if limits.longest_route is not None:
        factor, name = readable_unit(unit, limits.longest_route)
        suffix = name if name in METRES else ""
        options.append(f"--longest-route {limits.longest_route * factor:.10g}{suffix}")
    return " and ".join(options)


def require_kept(spec: SolveSpec) -> None:
    """Raise McvrpError if the model or solver of ``spec.by`` does not support its limits."""
    if not spec.limits.given or spec.by == AUTO:
        return
    supporting = [name for name in finishers() if SOLVERS[name].keeps(spec.limits)]
    if spec.by not in supporting:
        unit = "m" if isinstance(spec.longest_route, str) else ""
        raise McvrpError(
            f"--by {spec.by} does not support {limits_text(spec.limits, unit)}: use --by "
            f"{' or '.join([AUTO, *supporting])}"
        )


def require_possible(limits: Limits, city: City, addresses: Addresses, instance: Instance) -> None:
    """Raise McvrpError if orders need more vehicles than ``limits`` allow, or a customer is too far."""
    needed = fewest_vehicles(instance)
    if limits.fleet is not None and limits.fleet < needed:
        raise McvrpError(
            f"--fleet {limits.fleet} is too small: a total demand of {int(instance.demands.sum()):,} at a "
            f"capacity of {instance.capacity:,} needs at least {needed:,} vehicles: give more or larger ones"
        )
    if limits.longest_route is None:
        return
    costs = city.costs(instance.nodes)
    lengths = 2 * costs[0, 1:]
    if city.matrix is not None:  # the path via other customers of the day may be cheaper than the direct one
        lengths = (_shortest_paths(costs) + _shortest_paths(costs.T))[1:]
    far = int((lengths > limits.longest_route * (1 + COST_TOLERANCE)).sum())
    if far:
        worst = int(lengths.argmax())
        (name,) = addresses.names([int(instance.ids[worst])])
        more, own = f" (and {far - 1:,} more)" if far > 1 else "", replace(limits, fleet=None)
        raise McvrpError(
            f"customer {shown(name)}{more} is too far for {limits_text(own, city.unit)}: "
            f"the round trip is {exact_length(float(lengths[worst]), city.unit)}, allow at least that"
        )


def _shortest_paths(costs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the cost of the shortest path from the depot to each node, ``(n + 1,)`` (Bellman–Ford)."""
    paths = costs[0]
    while ((shorter := (paths[:, None] + costs).min(axis=0)) < paths).any():
        paths = np.minimum(paths, shorter)
    return paths
