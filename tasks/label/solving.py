"""Solving of the instances of a unit, attempt by attempt."""

from __future__ import annotations

from collections.abc import Callable

from mcvrp.model.canonical_form import canonical
from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City, cost
from mcvrp.model.random import philox_key
from mcvrp.storage.labels.schema import SOLVED, Label
from mcvrp.tasks.label.spec import Source
from mcvrp.tasks.label.units import LabelRecipe
from mcvrp.tasks.solvers.solver import Solver
from mcvrp.tasks.support.machine import processor

_SEED_BITS = 30  # supported by every solver

Attempt = Callable[[int, int], Label | str]  # of i and the solver's seed: a label, or why there is none


def make_solver(recipe: LabelRecipe, n: int) -> Solver:
    """Return the solver of ``recipe`` for ``n`` customers; SolverMissing if it is not installed."""
    return recipe.solver.make(**recipe.budget_of(n).options(), fleet=recipe.fleet)


def require_possible(source: Source) -> None:
    """Raise McvrpError if the city or the solver cannot give what the spec requests."""
    spec, city, recipe = source.spec, source.city, source.recipe
    if spec.largest > city.customers:
        raise McvrpError(f"label.largest = {spec.largest}: the city has {city.customers} customers")
    for n in spec.sizes:
        recipe.rules.capacity_range(n)
    recipe.solver.require_costs(city)
    make_solver(recipe, spec.smallest)


def solver_seed(seed: int, n: int, i: int) -> int:
    """Return the solver's seed for instance (n, i): a function of these numbers alone."""
    # Neither the worker nor the order of the rows matters, so that a repeated unit makes the same labels.
    return philox_key("solver", str(seed), str(n), str(i)) % 2**_SEED_BITS


def attempting(city: City, recipe: LabelRecipe, n: int) -> Attempt:
    """Return the function that makes one attempt at instance (n, i) in this process."""
    solver = make_solver(recipe, n)
    stream = recipe.stream(city)
    name, version, budget, cpu = solver.label, solver.version, recipe.budget_text(n), processor()

    def attempt(i: int, seed: int) -> Label | str:
        instance = stream(n, i)
        try:
            answer = next(iter(solver.solve(city, [instance], samples=1, seed=seed)))
            if answer.solution is None:
                return answer.failure or "no answer"
            solution = canonical(city, answer.solution)
            # Recomputed from the city in float64: solvers round, and some report only their own cost.
            exact = cost(city, solution)
        except Exception as error:  # whatever a solver raises is the instance's: others are solved
            return f"{type(error).__name__}: {' '.join(str(error).split())}"
        return Label(i, instance, solution, exact, SOLVED, name, version, seed, budget, answer.seconds, cpu)

    return attempt
