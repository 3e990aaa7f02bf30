"""Protocol of solvers; an answer is the best of several runs, with its feasibility and cost checked."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
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


ONE_CORE = "1 CPU core"  # device of all times on a CPU


class SolverMissing(McvrpError):
    """Missing program or package of a solver; the message names the installation command."""


class SolverFailed(McvrpError):
    """Run of a solver without an answer to its instance."""


@dataclass(frozen=True)
class Answer:
    """Answer of a solver to one instance.

    ``costs`` are those of the samples in the city's unit, infinite where infeasible, ``(samples,)``;
    ``elapsed`` is the wall-clock time after each, ``(samples,)``, if they were made one after the other.
    """

    solution: Solution | None  # best of the samples, feasible and canonical; None if no sample is feasible
    costs: NDArray[np.float64]
    seconds: float  # of one core or one GPU, all samples together
    failure: str | None = None  # reason for which there is no solution
    elapsed: NDArray[np.float64] | None = None


class Solver(Protocol):
    """Interface of a solver.

    ``label`` is its name in tables, ``version`` its program, ``device`` the device that solves one instance,
    ``configuration`` its settings, a time limit among them, in one line for a footnote.
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

        Raises McvrpError if the solver or its model does not support the city, an instance belongs to
        another city or has unknown customers, or ``samples`` exceeds the number of answers of a decoding
        strategy.
        """
        ...


@dataclass(frozen=True)
class Limits:
    """Constraints on a day's routes beside the capacity; None: unconstrained."""

    fleet: int | None = None  # maximum number of vehicles, that is of routes
    longest_route: float | None = None  # maximum cost of a route, in the city's unit
    service: Mapping[int, float] | None = (
        None  # by customer, counted in the longest route: then it is a shift
    )

    @property
    def given(self) -> dict[str, Any]:
        """The limits that are set, as arguments of a solver that supports them."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def broken(self, city: City, solution: Solution) -> str | None:
        """Return a description of the limit that ``solution`` violates, or None; equality is allowed."""
        if self.fleet is not None and len(solution.routes) > self.fleet:
            return f"more routes ({len(solution.routes):,}) than vehicles ({self.fleet:,})"
        if self.longest_route is not None:
            length = longest_route(city, solution, self.service)
            if length > self.longest_route * (1 + COST_TOLERANCE):
                unit = unit_text(city.unit)
                return f"a route of {length:,.10g} {unit}, {self.longest_route:,.10g} are the most"
        return None


NO_LIMITS = Limits()


def route_lengths(
    city: City, solution: Solution, service: Mapping[int, float] | None = None
) -> NDArray[np.float64]:
    """Return the cost of each route of ``solution`` with the ``service`` of its customers, ``(routes,)``."""
    path = solution.path
    legs = city.legs(path)
    if service:
        legs = legs + [service.get(node, 0.0) for node in path[1:].tolist()]
    return np.add.reduceat(legs, np.flatnonzero(path[:-1] == DEPOT))


def longest_route(city: City, solution: Solution, service: Mapping[int, float] | None = None) -> float:
    """Return the largest of `route_lengths`, in the city's unit."""
    return float(route_lengths(city, solution, service).max(initial=0.0))


class Search(Solver, Protocol):
    """Solver that can start from solutions."""

    def search(self, city: City, instance: Instance, seed: int, starts: Sequence[Solution] = ()) -> Solution:
        """Return the best solution of one run, started from ``starts`` if any; SolverFailed without one."""
        ...


Costs = Literal["any", "straight"]  # straight: straight lines, no cost matrix
Run = Callable[[City, Instance, int], Solution]


def require_costs(label: str, costs: Costs, city: City) -> None:
    """Raise McvrpError if the solver ``label``, which supports ``costs``, does not support the city's."""
    if costs == "straight" and city.matrix is not None:
        raise McvrpError(f"{label} takes straight lines only and the city has a matrix: use hgs or pyvrp")


def best_of(run: Run, city: City, instance: Instance, *, samples: int, seed: int) -> Answer:
    """Return the best of the runs with seeds ``seed`` to ``seed + samples - 1``.

    Feasibility and cost are computed by `model.problem`, not by the solver.

    Raises McvrpError if the instance belongs to another city or has unknown customers.
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
    if best is None:
        return Answer(None, costs, float(elapsed[-1]), failure, elapsed)
    return Answer(canonical(city, best), costs, float(elapsed[-1]), elapsed=elapsed)


def network_answers(
    city: City,
    instances: Sequence[Instance],
    decode: Callable[[], Sequence[Decoded]],
    cores: Callable[[], int],
) -> Iterator[Answer]:
    """Yield the answers of a network, each with its share of the time of ``decode`` times ``cores``.

    Feasible by construction, and checked again.
    """
    began = time.perf_counter()
    decoded = decode()
    seconds = (time.perf_counter() - began) * cores() / max(1, len(instances))
    for instance, samples in zip(instances, decoded, strict=True):
        best = samples.best
        reason = infeasibility(instance, best)
        yield Answer(None if reason else canonical(city, best), samples.costs, seconds, reason)
