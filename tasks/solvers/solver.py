"""Protocol of solvers: an answer is the best of a few runs, its feasibility and cost checked."""

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

COORDINATE_SCALE = 1e4  # side of the city's square for solvers: rounding and penalty floors vanish
SCALED = f"city scaled to a side of {COORDINATE_SCALE:,.0f}"  # for footnotes


class SolverMissing(McvrpError):
    """The solver's program or package is not installed; the message says how to get it."""


class SolverFailed(McvrpError):
    """The solver ended without an answer to one instance."""


@dataclass(frozen=True)
class Answer:
    """Answer of a solver to one instance.

    Parameters
    ----------
    solution
        The best of the samples, feasible and canonical; None when no sample was feasible.
    costs
        Cost of each sample in the city's unit, infinite where infeasible, ``(samples,)``.
    seconds
        Wall-clock time of all samples together.
    failure
        Why there is no solution.
    elapsed
        Wall-clock time after each sample, ``(samples,)``, where they were made one after the other.
    """

    solution: Solution | None
    costs: NDArray[np.float64]
    seconds: float
    failure: str | None = None
    elapsed: NDArray[np.float64] | None = None


class Solver(Protocol):
    """A way to solve instances.

    ``label`` names the solver in tables, ``version`` the program, ``device`` what one instance is
    solved on, ``configuration`` how, in one line for a footnote.
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
        """Yield one answer an instance, in order: the best of ``samples`` runs from ``seed`` up."""
        ...


@dataclass(frozen=True)
class Limits:
    """What a day's routes have to keep beside the capacity; None: there is no such limit.

    Parameters
    ----------
    fleet
        Most vehicles, so most routes.
    longest_route
        Most that a route may cost, in the city's unit.
    """

    fleet: int | None = None
    longest_route: float | None = None

    @property
    def given(self) -> dict[str, Any]:
        """The limits that there are, by name: arguments of a solver that keeps them."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def broken(self, city: City, solution: Solution) -> str | None:
        """Return which limit ``solution`` breaks, or None; a route of just the longest length breaks none."""
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
    """Return ``solution`` in at most ``fleet`` routes: the lightest go behind others, whatever these hold."""
    if fleet is None or len(solution.routes) <= fleet:
        return solution
    demand = dict(zip(instance.ids.tolist(), instance.demands.tolist(), strict=True))
    routes = sorted(map(list, solution.routes), key=lambda route: -sum(demand[node] for node in route))
    for k, route in enumerate(routes[fleet:], start=1):
        routes[-k % fleet] += route  # the lightest first
    return Solution.of(routes[:fleet])


class Search(Solver, Protocol):
    """A solver that can go on from solutions."""

    def search(self, city: City, instance: Instance, seed: int, starts: Sequence[Solution] = ()) -> Solution:
        """Return the best solution of one run, from ``starts`` if any; SolverFailed if there is none."""
        ...


Costs = Literal["any", "symmetric", "straight"]  # straight: straight lines, no matrix of costs


USE_PYVRP = "use solver pyvrp (--set label.solver=pyvrp)"


def require_costs(label: str, costs: Costs, city: City, hint: str = USE_PYVRP) -> None:
    """Raise McvrpError for a city whose costs the solver ``label``, which takes ``costs``, does not take."""
    if costs == "straight" and city.matrix is not None:
        raise McvrpError(f"{label} takes straight lines only and the city has a matrix: {hint}")
    if costs == "symmetric" and not city.symmetric:
        raise McvrpError(f"{label} takes symmetric costs only and the city's matrix is not symmetric: {hint}")


Run = Callable[[City, Instance, int], Solution]


def best_of(run: Run, city: City, instance: Instance, *, samples: int, seed: int) -> Answer:
    """Return the best of the runs with seeds ``seed`` to ``seed + samples - 1``.

    Feasibility and cost come from `model.problem`, whatever the solver says of itself.

    Raises
    ------
    McvrpError
        If the instance is another city's, or names a customer that is none.
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
    """Yield the answers of a network, each with its share of the time that ``decode`` takes for all.

    They are feasible by construction, and checked again.
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
    """Return the travel costs between the instance's nodes at the size that solvers like, ``(n+1, n+1)``.

    Straight lines are scaled to a city of side 1e4, a matrix so that its largest entry is 1e4; one of
    whole numbers by a whole number from 1 up, so that a solver which rounds counts exactly.
    """
    costs = _costs(city, instance)
    return costs * _factor(city, costs)


def cost_factor(city: City, instance: Instance) -> float:
    """Return what `scaled_costs` multiplies costs with."""
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
    np.fill_diagonal(costs, 0)  # staying is free: PyVRP insists, HGS-CVRP would pay it for each empty route
    return costs
