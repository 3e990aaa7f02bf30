"""Isolated solving in a separate process, so that a crash or a hang costs one attempt at one instance.

The process is restarted after each crash. A request over its pipe is an instance and a seed of the solver,
the response is a label or the reason of the failure.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City
from mcvrp.storage.labels.arrays import LabelArrays
from mcvrp.storage.labels.checks import require_sound
from mcvrp.storage.labels.schema import Label, label_table
from mcvrp.tasks.label.attempt import attempting, make_solver, solver_seed
from mcvrp.tasks.label.work import ATTEMPTS, Failure, LabelRecipe, Outcome, Unit
from mcvrp.tasks.support.processes import start_group, stop_group

_START_SECONDS = 120.0  # to import Python and the solver on a busy machine


@contextlib.contextmanager
def run_isolated(city: City, recipe: LabelRecipe, unit: Unit) -> Iterator[Callable[[int], Outcome]]:
    """Yield the function that labels instance (n, i), given i, in a process that may crash.

    A crash is retried with the same seed, as the cause may have been external (out of memory, an operator);
    an instance without a solution is retried with the next seed.
    """
    solver = make_solver(recipe, unit.n)
    child = _Child(city, recipe, unit.n)

    def solve(i: int) -> Outcome:
        seed, crashed = unit.seeds.get(i, solver_seed(recipe.seed, unit.n, i)), False
        for attempt in range(1, ATTEMPTS + 1):
            outcome = child.ask(i, seed, unit.instance_seconds)
            if isinstance(outcome, Label):
                return outcome
            crash = isinstance(outcome, str)
            reason = outcome if isinstance(outcome, str) else outcome.reason
            failure = Failure(i, reason, solver.label, solver.version, seed, attempt, crash)
            if not crash or crashed:
                seed += 1
            crashed = crash
        return failure

    try:
        yield solve
    finally:
        child.stop()


class _Child:
    """The process, started at the first request and again after a crash."""

    def __init__(self, city: City, recipe: LabelRecipe, n: int) -> None:
        self._task = (city, recipe, n)
        self._process: subprocess.Popen[str] | None = None
        self._connection: Connection | None = None

    def ask(self, i: int, seed: int, seconds: float) -> Outcome | str:
        """Return the outcome of instance (n, i), or how the process ended, within ``seconds``."""
        process, connection = self._running()
        try:
            connection.send((i, seed))
            if not connection.poll(seconds):
                self.stop()  # requests can no longer be answered: the solver does not return to Python
                return f"the solver took longer than {seconds:.0f} s"
            outcome: Outcome | str = connection.recv()
            return outcome
        except (EOFError, OSError):
            # The pipe closes a moment before the process can be waited for; its exit code is the reason.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1.0)
            reason = _death(process.poll())
            self.stop()
            return reason

    def stop(self) -> None:
        """Stop the process, if it is running."""
        if self._process and self._connection:
            self._connection.close()
            stop_group(self._process, grace=0.5)
        self._process = self._connection = None

    def _running(self) -> tuple[subprocess.Popen[str], Connection]:
        if self._process is None or self._connection is None:
            self._connection, theirs = Pipe()
            with theirs:
                self._process = start_group(
                    [sys.executable, "-m", "mcvrp.tasks.label.isolated", str(theirs.fileno())],
                    # `python -m` would put the working directory first on the path: a user's model.py there
                    # would be imported instead of ours.
                    env={**os.environ, "PYTHONSAFEPATH": "1"},
                    stdout=subprocess.DEVNULL,  # solvers in C++ write there
                    pass_fds=[theirs.fileno()],
                )
            self._greet(self._connection)
        return self._process, self._connection

    def _greet(self, connection: Connection) -> None:
        """Send the process its task and wait until it is ready; a failure here is no instance's fault."""
        try:
            connection.send(self._task)
            if connection.poll(_START_SECONDS) and connection.recv() is None:
                return
        except (EOFError, OSError):
            pass
        self.stop()
        raise McvrpError("the isolated process did not start: check the machine's memory")


def _death(code: int | None) -> str:
    if code is None:
        return "the solver stopped answering"
    if code < 0:
        return f"the solver died with {signal.Signals(-code).name}"
    return f"the solver ended with exit code {code}"


def main() -> None:
    """Answer requests until the pipe is closed."""
    connection = Connection(int(sys.argv[1]))
    city, recipe, n = connection.recv()
    attempt = attempting(city, recipe, n)
    connection.send(None)
    while True:
        try:
            i, seed = connection.recv()
        except EOFError:
            return
        connection.send(_answer(attempt, city, n, i, seed))


def _answer(attempt: Callable[[int, int], Outcome], city: City, n: int, i: int, seed: int) -> Outcome | str:
    try:
        outcome = attempt(i, seed)
        if isinstance(outcome, Label):
            # Here, where a wrong label costs one instance: the check of the whole file would fail the unit.
            require_sound(city, n, LabelArrays.of(label_table([outcome]), n))
        return outcome
    except Exception as error:  # any error is the instance's, and its reason goes into the quarantine
        return f"{type(error).__name__}: {' '.join(str(error).split())}"


if __name__ == "__main__":
    main()
