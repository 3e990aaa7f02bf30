"""Solving of the instances of a unit, in this process or in a child that a crash or a hang may end.

The child is restarted after each crash. Over its pipe, a request is an instance and a seed.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City, cost
from mcvrp.model.random import philox_key
from mcvrp.shared_array import shared
from mcvrp.storage.labels.schema import SOLVED, Label
from mcvrp.tasks.label.work import LabelRecipe, Unit
from mcvrp.tasks.solvers.solver import Solver
from mcvrp.tasks.support.machine import processor
from mcvrp.tasks.support.processes import Child, parent, receive, send

_SEED_BITS = 30  # supported by every solver
_START_SECONDS = 120.0  # to import Python and the solver on a busy machine

Attempt = Callable[[int, int], Label | str]  # of i and the solver's seed: a label, or why there is none


def make_solver(recipe: LabelRecipe, n: int) -> Solver:
    """Return the solver of ``recipe`` for ``n`` customers; SolverMissing if it is not installed."""
    return recipe.solver.make(**recipe.budget_of(n).options(), fleet=recipe.fleet)


def solver_seed(seed: int, n: int, i: int) -> int:
    """Return the solver's seed for instance (n, i): a function of these numbers alone."""
    # Neither the worker nor the order of the rows matters, so that a repeated unit makes the same labels.
    return philox_key("solver", str(seed), str(n), str(i)) % 2**_SEED_BITS


@contextlib.contextmanager
def solving(city: City, recipe: LabelRecipe, unit: Unit) -> Iterator[Attempt]:
    """Yield the function that attempts to label an instance of ``unit``, which determines the process."""
    if unit.isolated:
        child = _Isolated(city, recipe, unit)
        try:
            yield child.attempt
        finally:
            child.stop()
        return
    attempt = attempting(city, recipe, unit.n)

    def limited(i: int, seed: int) -> Label | str:
        signal.setitimer(signal.ITIMER_REAL, unit.limit)
        return attempt(i, seed)

    # The default action of the kernel, which ends the process: a Python handler would wait for a solver to
    # return from C++. Ray repeats the unit, and a second loss isolates it.
    before = signal.signal(signal.SIGALRM, signal.SIG_DFL)
    try:
        yield limited
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def attempting(city: City, recipe: LabelRecipe, n: int) -> Attempt:
    """Return the function that makes one attempt at instance (n, i) in this process."""
    solver = make_solver(recipe, n)
    stream = recipe.stream(city)
    name, version, budget, cpu = solver.label, solver.version, recipe.budget_text(n), processor()

    def attempt(i: int, seed: int) -> Label | str:
        instance = stream(n, i)
        try:
            answer = next(iter(solver.solve(city, [instance], samples=1, seed=seed)))
        except Exception as error:  # whatever a solver raises is the instance's: others are solved
            return f"{type(error).__name__}: {' '.join(str(error).split())}"
        if answer.solution is None:
            return answer.failure or "no answer"
        # Recomputed from the city in float64: solvers round distances, and some report only their own cost.
        exact = cost(city, answer.solution)
        return Label(
            i, instance, answer.solution, exact, SOLVED, name, version, seed, budget, answer.seconds, cpu
        )

    return attempt


class _Isolated:
    """The child process, started at the first attempt and again after a crash."""

    def __init__(self, city: City, recipe: LabelRecipe, unit: Unit) -> None:
        if city.matrix is not None:  # each process would have its own copy
            city = replace(city, matrix=shared(city.matrix))
        self._task, self._seconds = (city, recipe, unit.n), unit.limit
        self._process: Child | None = None

    def attempt(self, i: int, seed: int) -> Label | str:
        """Return the label of instance (n, i), or why there is none, such as how the process ended."""
        # A first crash is repeated with the same seed: its cause may be external (memory, an operator).
        for _ in range(2):
            process = self._running()
            try:
                process.connection.send((i, seed))
                if process.connection.poll(self._seconds):
                    outcome: Label | str = process.connection.recv()
                    return outcome
                self.stop()  # it can answer no other request: the solver does not return to Python
                return f"the solver took longer than {self._seconds:.0f} s"
            except (EOFError, OSError):
                reason = f"the solver {process.death()}"
                self.stop()
        return reason

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
    attempt = attempting(city, recipe, n)
    connection.send(None)
    with contextlib.suppress(EOFError):
        while True:
            connection.send(attempt(*connection.recv()))


if __name__ == "__main__":
    main()
