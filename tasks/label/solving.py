"""Solving of the instances of a unit, in this process or isolated, so that a crash costs one attempt at one.

The isolated process is restarted after each crash. Over its pipe, a request is an instance and a seed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City, cost
from mcvrp.model.random import philox_key
from mcvrp.shared_array import shared
from mcvrp.storage.labels.arrays import LabelArrays
from mcvrp.storage.labels.checks import require_sound
from mcvrp.storage.labels.schema import SOLVED, Label, label_table
from mcvrp.tasks.label.work import ATTEMPTS, Failure, LabelRecipe, Outcome, Unit
from mcvrp.tasks.solvers.solver import Solver
from mcvrp.tasks.support.machine import processor
from mcvrp.tasks.support.processes import Child, parent, receive, send

_SEED_BITS = 30  # supported by every solver
_START_SECONDS = 120.0  # to import Python and the solver on a busy machine


def make_solver(recipe: LabelRecipe, n: int) -> Solver:
    """Return the solver of ``recipe`` for ``n`` customers; SolverMissing if it is not installed."""
    return recipe.solver.make(**recipe.budget_of(n).options(), fleet=recipe.fleet)


def solver_seed(seed: int, n: int, i: int) -> int:
    """Return the solver's seed for instance (n, i): a function of these numbers alone."""
    # Neither the worker nor the order of the rows matters, so that a repeated unit makes the same labels.
    return philox_key("solver", str(seed), str(n), str(i)) % 2**_SEED_BITS


@contextlib.contextmanager
def solving(city: City, recipe: LabelRecipe, unit: Unit) -> Iterator[Callable[[int], Outcome]]:
    """Yield the function that labels instance (n, i), given i; ``unit`` determines in which process."""
    child = _Isolated(city, recipe, unit) if unit.isolated else None
    attempt = child.attempt if child else attempting(city, recipe, unit.n)

    def solve(i: int) -> Outcome:
        seed, crashed = unit.seeds.get(i, solver_seed(recipe.seed, unit.n, i)), False
        for _ in range(ATTEMPTS):
            outcome = attempt(i, seed)
            if isinstance(outcome, Label):
                return outcome
            # A first crash is retried with the same seed: its cause may be external (memory, an operator).
            seed += crashed or not outcome.crashed
            crashed = outcome.crashed
        return outcome

    try:
        yield solve
    finally:
        if child:
            child.stop()


def attempting(city: City, recipe: LabelRecipe, n: int) -> Callable[[int, int], Outcome]:
    """Return the function that makes one attempt at instance (n, i), given i and the solver's seed."""
    solver = make_solver(recipe, n)
    stream = recipe.stream(city)
    name, version, budget, cpu = solver.label, solver.version, recipe.budget_text(n), processor()

    def attempt(i: int, seed: int) -> Outcome:
        instance = stream(n, i)
        answer = next(iter(solver.solve(city, [instance], samples=1, seed=seed)))
        if answer.solution is None:
            return Failure(i, answer.failure or "no answer", name, version, seed)
        # Recomputed from the city in float64: solvers round distances, and some report only their own cost.
        exact = cost(city, answer.solution)
        return Label(
            i, instance, answer.solution, exact, SOLVED, name, version, seed, budget, answer.seconds, cpu
        )

    return attempt


class _Isolated:
    """The isolated process, started at the first attempt and again after a crash."""

    def __init__(self, city: City, recipe: LabelRecipe, unit: Unit) -> None:
        if city.matrix is not None:  # each process would have its own copy
            city = replace(city, matrix=shared(city.matrix))
        self._task, self._seconds = (city, recipe, unit.n), unit.instance_seconds
        self._solver = make_solver(recipe, unit.n)
        self._process: Child | None = None

    def attempt(self, i: int, seed: int) -> Outcome:
        """Return the outcome of instance (n, i); how the process ended is the reason of a crash."""
        process = self._running()
        try:
            process.connection.send((i, seed))
            if process.connection.poll(self._seconds):
                outcome: Outcome = process.connection.recv()
                return outcome
            # it can answer no other request: the solver does not return to Python
            reason = f"the solver took longer than {self._seconds:.0f} s"
        except (EOFError, OSError):
            reason = f"the solver {process.death()}"
        self.stop()
        return Failure(i, reason, self._solver.label, self._solver.version, seed, crashed=True)

    def stop(self) -> None:
        """Stop the process, if it is running."""
        if self._process:
            self._process.connection.close()
            self._process.stop(grace=0.5)
            self._process = None

    def _running(self) -> Child:
        if self._process is None:
            self._process = Child("mcvrp.tasks.label.solving")
            connection = self._process.connection
            try:  # a failure here is no instance's fault
                send(connection, self._task)
                ready = connection.poll(_START_SECONDS) and connection.recv() is None
            except (EOFError, OSError):
                ready = False
            if not ready:
                self.stop()
                raise McvrpError("the isolated process did not start: check the machine's memory")
        return self._process


def main() -> None:
    """Answer requests until the pipe is closed."""
    connection = parent()
    city, recipe, n = receive(connection)
    attempt, solver = attempting(city, recipe, n), make_solver(recipe, n)
    connection.send(None)
    with contextlib.suppress(EOFError):
        while True:
            i, seed = connection.recv()
            try:
                outcome = attempt(i, seed)
                if isinstance(outcome, Label):
                    # Here, where a wrong label costs one instance: the check of the file would fail the unit.
                    require_sound(city, n, LabelArrays.of(label_table([outcome]), n))
            except Exception as error:  # any error is the instance's, and its reason goes into the quarantine
                reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
                outcome = Failure(i, reason, solver.label, solver.version, seed, crashed=True)
            connection.send(outcome)


if __name__ == "__main__":
    main()
