"""Attempts at one instance: the solver by name, its seed, a label or why there is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mcvrp.model.problem import City, cost
from mcvrp.model.random import philox_key
from mcvrp.storage.labels.schema import SOLVED, Label
from mcvrp.tasks.label.work import ATTEMPTS, Failure, LabelRecipe, Outcome
from mcvrp.tasks.solvers.solver import Solver
from mcvrp.tasks.support.machine import processor

_SEED_BITS = 30  # what every solver takes


def make_solver(recipe: LabelRecipe, n: int) -> Solver:
    """Return the solver that ``recipe`` names for ``n`` customers; SolverMissing when not installed."""
    return recipe.solver.make(**recipe.budget_of(n).options(), fleet=recipe.fleet)


def solver_seed(seed: int, n: int, i: int) -> int:
    """Return the solver's seed for instance (n, i): a function of these numbers alone."""
    return philox_key("solver", str(seed), str(n), str(i)) % 2**_SEED_BITS


def plain_solving(city: City, recipe: LabelRecipe, n: int) -> Callable[[int], Outcome]:
    """Return the function that labels instance (n, i) for i, in this process."""
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
    """Return the function that tries to label instance (n, i) with a seed of the solver, for both."""
    solver = make_solver(recipe, n)
    stream = recipe.stream(city)
    name, version, budget, cpu = solver.label, solver.version, recipe.budget_text(n), processor()

    def attempt(i: int, seed: int) -> Outcome:
        instance = stream(n, i)
        answer = next(iter(solver.solve(city, [instance], samples=1, seed=seed)))
        if answer.solution is None:
            return Failure(i, answer.failure or "no answer", name, version, seed, attempts=1)
        price = cost(city, answer.solution)
        return Label(
            i, instance, answer.solution, price, SOLVED, name, version, seed, budget, answer.seconds, cpu
        )

    return attempt
