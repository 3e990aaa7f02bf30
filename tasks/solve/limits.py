"""Limits of a day besides the capacity: checks that they are supported, and bounds of what they allow."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import COST_TOLERANCE, City, Instance, Solution
from mcvrp.tasks.solve.spec import AUTO, SolveSpec
from mcvrp.tasks.solvers.registry import SOLVERS, finishers
from mcvrp.tasks.solvers.searches import vehicles_needed
from mcvrp.tasks.solvers.solver import Limits
from mcvrp.tasks.support.text import is_seconds, length_text, time_text, unit_text


def limits_text(limits: Limits, unit: str) -> str:
    """Return ``limits`` of a city with costs in ``unit`` as options: "--fleet 5 and --longest-route 20 km".

    With service times the longest route is a shift.
    """
    options = [f"--fleet {limits.fleet}"] if limits.fleet is not None else []
    if limits.longest_route is not None:
        option = "--longest-route" if limits.service is None else "--shift"
        options.append(f"{option} {length_text(limits.longest_route, unit)}")
    return " and ".join(options)


def require_supported(spec: SolveSpec, city: City, name: str) -> None:
    """Raise McvrpError if the limits of ``spec``, in the unit of the city ``name``, contradict each other.

    Also if ``by`` does not support them, or if a shift or a start time is given and costs are not in seconds.
    """
    if spec.shift is not None and spec.longest_route is not None:
        longest = limits_text(Limits(longest_route=float(spec.longest_route)), city.unit)
        raise McvrpError(
            f"--shift {time_text(spec.shift)} and {longest} both limit the length of a route: give one"
        )
    if spec.service is not None and not spec.timed:
        raise McvrpError(
            f"--service {time_text(spec.service)} counts with --shift and --start-time only: give one, or "
            "omit it"
        )
    if spec.timed and not is_seconds(city.unit):
        raise McvrpError(
            f"--shift and --start-time count seconds, and the costs of city {name!r} are in "
            f"{unit_text(city.unit)}: import it with --by time (--roads) or a matrix in seconds (--unit s)"
        )
    supporting = [solver for solver in finishers() if SOLVERS[solver].keeps(spec.limits)]
    if spec.limits.given and spec.by not in (AUTO, *supporting):
        raise McvrpError(
            f"--by {spec.by} does not support {limits_text(spec.limits, city.unit)}: use --by "
            f"{' or '.join([AUTO, *supporting])}"
        )


def round_trips(limits: Limits, city: City, instance: Instance) -> NDArray[np.float64]:
    """Return a lower bound of the length of a route that serves each customer, ``(n,)``.

    In a cost matrix the path via other customers of the day may be cheaper than the direct one.
    """
    costs = city.costs(instance.nodes)
    np.fill_diagonal(costs, 0)
    costs[1:] += _service(limits, instance)[:, None]  # of the customer that a leg leaves
    if city.matrix is None:
        return costs[0, 1:] + costs[1:, 0]
    return (_shortest_paths(costs) + _shortest_paths(costs.T))[1:]


def too_far(limits: Limits, city: City, instance: Instance) -> NDArray[np.bool_]:
    """Return a mask of the customers whom no route within ``limits`` can serve, ``(n,)``."""
    if limits.longest_route is None:
        return np.zeros(instance.n, dtype=bool)
    return round_trips(limits, city, instance) > limits.longest_route * (1 + COST_TOLERANCE)


def within_length(solution: Solution, limits: Limits, city: City) -> Solution:
    """Return ``solution`` with its routes cut where the next customer would make them too long."""
    alone, routes = replace(limits, fleet=None), list[tuple[int, ...]]()
    for route in solution.routes:
        part: tuple[int, ...] = ()
        for node in route:
            if part and alone.broken(city, Solution(((*part, node),))):
                routes.append(part)
                part = ()
            part = (*part, node)
        routes.append(part)
    return Solution(tuple(routes))


def fewest_left_out(
    limits: Limits, city: City, instance: Instance, served: Collection[int] = frozenset()
) -> int:
    """Return a lower bound of the number of customers that ``limits`` leave out, none of ``served``.

    Those of the largest demands, or the longest legs and stops, free the most for the others.
    """
    if limits.fleet is None:
        return 0
    fixed = np.isin(instance.ids, list(served))
    bounds = [_fewest_removed(instance.demands.astype(np.float64), fixed, instance.capacity, limits.fleet)]
    if limits.longest_route is not None:
        costs = city.costs(instance.nodes)
        np.fill_diagonal(costs, np.inf)
        spent = costs.min(axis=0)[1:] + _service(limits, instance)
        room = limits.longest_route * (1 + COST_TOLERANCE) - float(costs[1:, 0].min())
        bounds.append(_fewest_removed(spent, fixed, max(room, 0.0), limits.fleet))
    return max(bounds)


def _fewest_removed(sizes: NDArray[np.float64], fixed: NDArray[np.bool_], room: float, fleet: int) -> int:
    """Return the fewest of ``sizes``, none ``fixed``, to remove until a bound of vehicles is ``fleet``."""
    ordered = np.concatenate([sizes[fixed], np.sort(sizes[~fixed])])  # the largest that may go come last
    most = int((~fixed).sum())
    enough = (k for k in range(most) if vehicles_needed(ordered[: len(sizes) - k], room) <= fleet)
    return next(enough, most)


def _service(limits: Limits, instance: Instance) -> NDArray[np.float64]:
    """Return the service of each customer, ``(n,)``."""
    service = limits.service or {}
    return np.array([service.get(node, 0.0) for node in instance.ids.tolist()])


def _shortest_paths(costs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the cost of the shortest path from the depot to each node, ``(n + 1,)`` (Bellman–Ford)."""
    paths = costs[0]
    while ((shorter := (paths[:, None] + costs).min(axis=0)) < paths).any():
        paths = np.minimum(paths, shorter)
    return paths
