"""Attempts at one instance: solver, seed, and the label or the reason of the failure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mcvrp.model.problem import City, cost
from mcvrp.model.random import philox_key
from mcvrp.storage.labels.schema import SOLVED, Label
from mcvrp.tasks.label.work import ATTEMPTS, Failure, LabelRecipe, Outcome
from mcvrp.tasks.solvers.solver import Solver
from mcvrp.tasks.support.machine import processor

_SEED_BITS = 30  # supported by every solver


def make_solver(recipe: LabelRecipe, n: int) -> Solver:
    """Return the solver of ``recipe`` for ``n`` customers; SolverMissing if it is not installed."""
    return recipe.solver.make(**recipe.budget_of(n).options(), fleet=recipe.fleet)


def solver_seed(seed: int, n: int, i: int) -> int:
    """Return the solver's seed for instance (n, i): a function of these numbers alone."""
    # Neither the worker nor the order of the rows matters, so that a repeated unit makes the same labels.
    return philox_key("solver", str(seed), str(n), str(i)) % 2**_SEED_BITS


def plain_solving(city: City, recipe: LabelRecipe, n: int) -> Callable[[int], Outcome]:
    """Return the function that labels instance (n, i), given i, in this process."""
    attempt = attempting(city, recipe, n)

    def solve(i: int) -> Outcome:
        first = solver_seed(recipe.seed, n, i)
        for tried in range(1, ATTEMPTS + 1):
            outcome = attempt(i, first + tried - 1)
            if isinstance(outcome, Label):
                return outcome
            failure = replace(outcome, attempts=tried)
        return failure

    return solve


def attempting(city: City, recipe: LabelRecipe, n: int) -> Callable[[int, int], Outcome]:
    """Return the function that makes one attempt at instance (n, i), given i and the solver's seed."""
    solver = make_solver(recipe, n)
    stream = recipe.stream(city)
    name, version, budget, cpu = solver.label, solver.version, recipe.budget_text(n), processor()

    def attempt(i: int, seed: int) -> Outcome:
        instance = stream(n, i)
        answer = next(iter(solver.solve(city, [instance], samples=1, seed=seed)))
        if answer.solution is None:
            return Failure(i, answer.failure or "no answer", name, version, seed, attempts=1)
        # Recomputed from the city in float64: solvers round distances, and some report only their own cost.
        exact = cost(city, answer.solution)
        return Label(
            i, instance, answer.solution, exact, SOLVED, name, version, seed, budget, answer.seconds, cpu
        )

    return attempt
