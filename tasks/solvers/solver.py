"""Protocol of solvers; an answer is the best of several runs, with its feasibility and cost checked."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from mcvrp.model.canonical_form import canonical
from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import (
    COST_TOLERANCE,
    DEPOT,
    City,
    Instance,
    Solution,
    cost,
    infeasibility,
    require_instances,
)
from mcvrp.tasks.support.text import unit_text

if TYPE_CHECKING:
    from mcvrp.model.decoding import Decoded

COORDINATE_SCALE = (
    1e4  # side of the city's square for solvers, large enough for integer rounding and penalty floors
)
SCALED = f"city scaled to a side of {COORDINATE_SCALE:,.0f}"  # for footnotes


class SolverMissing(McvrpError):
    """Missing program or package of a solver; the message names the installation command."""


class SolverFailed(McvrpError):
    """Run of a solver without an answer to its instance."""


@dataclass(frozen=True)
class Answer:
    """Answer of a solver to one instance.

    Parameters
    ----------
    solution
        Best of the samples, feasible and canonical; None if no sample is feasible.
    costs
        Cost of each sample in the city's unit, infinite where infeasible, ``(samples,)``.
    seconds
        Wall-clock time of all samples together.
    failure
        Reason for which there is no solution.
    elapsed
        Wall-clock time after each sample, ``(samples,)``, if they were made one after the other.
    """

    solution: Solution | None
    costs: NDArray[np.float64]
    seconds: float
    failure: str | None = None
    elapsed: NDArray[np.float64] | None = None


class Solver(Protocol):
    """Interface of a solver.

    ``label`` is its name in tables, ``version`` its program, ``device`` the device that solves one instance,
    ``configuration`` its settings in one line for a footnote.
    """

    @property
    def label(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def device(self) -> str: ...
    @property
    def configuration(self) -> str: ...

    def solve(
        self, city: City, instances: Sequence[Instance], *, samples: int, seed: int
    ) -> Iterator[Answer]:
        """Yield one answer per instance, in order: the best of ``samples`` runs from ``seed`` up.

        Raises
        ------
        McvrpError
            If the solver or its model does not support the city, an instance belongs to another city or has
            unknown customers, or ``samples`` exceeds the number of answers of a decoding strategy.
        """
        ...


@dataclass(frozen=True)
class Limits:
    """Constraints on a day's routes beside the capacity; None: unconstrained.

    Parameters
    ----------
    fleet
        Maximum number of vehicles, that is of routes.
    longest_route
        Maximum cost of a route, in the city's unit.
    """

    fleet: int | None = None
    longest_route: float | None = None

    @property
    def given(self) -> dict[str, Any]:
        """The limits that are set, as arguments of a solver that supports them."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def broken(self, city: City, solution: Solution) -> str | None:
        """Return a description of the limit that ``solution`` violates, or None; equality is allowed."""
        if self.fleet is not None and len(solution.routes) > self.fleet:
            return f"more routes ({len(solution.routes):,}) than vehicles ({self.fleet:,})"
        if self.longest_route is not None:
            length = longest_route(city, solution)
            if length > self.longest_route * (1 + COST_TOLERANCE):
                unit = unit_text(city.unit)
                return f"a route of {length:,.10g} {unit}, {self.longest_route:,.10g} are the most"
        return None


NO_LIMITS = Limits()


def longest_route(city: City, solution: Solution) -> float:
    """Return the cost of the dearest route of ``solution``, in the city's unit."""
    path = solution.path
    return float(np.add.reduceat(city.legs(path), np.flatnonzero(path[:-1] == DEPOT)).max())


def in_fleet(instance: Instance, solution: Solution, fleet: int | None) -> Solution:
    """Return ``solution`` in at most ``fleet`` routes: the lightest are appended to others."""
    if fleet is None or len(solution.routes) <= fleet:
        return solution
    demand = dict(zip(instance.ids.tolist(), instance.demands.tolist(), strict=True))
    routes = sorted(map(list, solution.routes), key=lambda route: -sum(demand[node] for node in route))
    for k, route in enumerate(routes[fleet:], start=1):
        routes[-k % fleet] += route  # the lightest first
    return Solution.of(routes[:fleet])


class Search(Solver, Protocol):
    """Solver that can start from solutions."""

    def search(self, city: City, instance: Instance, seed: int, starts: Sequence[Solution] = ()) -> Solution:
        """Return the best solution of one run, started from ``starts`` if any; SolverFailed without one."""
        ...


Costs = Literal["any", "symmetric", "straight"]  # straight: straight lines, no cost matrix


USE_PYVRP = "use solver pyvrp (--set label.solver=pyvrp)"


def require_costs(label: str, costs: Costs, city: City, hint: str = USE_PYVRP) -> None:
    """Raise McvrpError if the solver ``label``, which supports ``costs``, does not support the city's."""
    if costs == "straight" and city.matrix is not None:
        raise McvrpError(f"{label} takes straight lines only and the city has a matrix: {hint}")
    if costs == "symmetric" and not city.symmetric:
        raise McvrpError(f"{label} takes symmetric costs only and the city's matrix is not symmetric: {hint}")


Run = Callable[[City, Instance, int], Solution]


def best_of(run: Run, city: City, instance: Instance, *, samples: int, seed: int) -> Answer:
    """Return the best of the runs with seeds ``seed`` to ``seed + samples - 1``.

    Feasibility and cost are computed by `model.problem`, not by the solver.

    Raises
    ------
    McvrpError
        If the instance belongs to another city or has unknown customers.
    """
    require_instances(city, [instance])
    start = time.perf_counter()
    costs, elapsed = np.full(samples, np.inf), np.zeros(samples)
    best: Solution | None = None
    failure: str | None = None
    for sample in range(samples):
        try:
            solution = run(city, instance, seed + sample)
            reason = infeasibility(instance, solution)
        except SolverFailed as error:
            reason = str(error)
        if reason:
            failure = reason
        else:
            costs[sample] = cost(city, solution)
            if best is None or costs[sample] < costs[:sample].min():
                best = solution
        elapsed[sample] = time.perf_counter() - start
    seconds = float(elapsed[-1])
    if best is None:
        return Answer(None, costs, seconds, failure, elapsed)
    return Answer(canonical(city, best), costs, seconds, elapsed=elapsed)


def network_answers(
    city: City, instances: Sequence[Instance], decode: Callable[[], Sequence[Decoded]]
) -> Iterator[Answer]:
    """Yield the answers of a network, each with its share of the total time of ``decode``.

    Feasible by construction, and checked again.
    """
    began = time.perf_counter()
    decoded = decode()
    seconds = (time.perf_counter() - began) / max(1, len(instances))
    for instance, samples in zip(instances, decoded, strict=True):
        best = samples.best
        reason = infeasibility(instance, best)
        yield Answer(None if reason else canonical(city, best), samples.costs, seconds, reason)


def checked_budget(time_limit: float | None, iterations: int | None) -> str:
    """Return the budget in words: "5 s", "30 iterations"; McvrpError unless exactly one is given."""
    if (time_limit is None) == (iterations is None):
        raise McvrpError("a solver takes either a time limit or iterations: give one of the two")
    if time_limit is not None:
        if not 0 < time_limit < float("inf"):
            raise McvrpError(f"a time limit must be a positive number of seconds, not {time_limit}")
        return f"{time_limit:g} s"
    if iterations is not None and iterations < 1:
        raise McvrpError(f"a solver needs at least one iteration, not {iterations}")
    return f"{iterations} iterations"


def scaled_xy(city: City, instance: Instance) -> NDArray[np.float64]:
    """Return the coordinates of the instance's nodes in a city of side 1e4, ``(n + 1, 2)``."""
    return (city.xy[instance.nodes] - np.asarray(city.origin)) * (COORDINATE_SCALE / city.scale)


def scaled_costs(city: City, instance: Instance) -> NDArray[np.float64]:
    """Return the scaled travel costs between the instance's nodes for solvers, ``(n + 1, n + 1)``.

    Straight lines are scaled to a city of side 1e4, a matrix to a largest entry of 1e4. The factor of a
    matrix of integers is an integer, so that solvers that round are exact.
    """
    costs = _costs(city, instance)
    return costs * _factor(city, costs)


def cost_factor(city: City, instance: Instance) -> float:
    """Return the factor of `scaled_costs`."""
    return _factor(city, _costs(city, instance))


def _factor(city: City, costs: NDArray[np.float64]) -> float:
    if city.matrix is None:
        return COORDINATE_SCALE / city.scale
    largest = float(costs.max())
    factor = COORDINATE_SCALE / largest if largest > 0 else 1.0
    if np.array_equal(costs, np.rint(costs)):
        factor = max(1.0, np.floor(factor))
    return factor


def _costs(city: City, instance: Instance) -> NDArray[np.float64]:
    costs = city.costs(instance.nodes)
    np.fill_diagonal(costs, 0)  # PyVRP requires 0, HGS-CVRP would add it for each empty route
    return costs
