"""Isolated solving: in a process apart, so that a crash or a hang costs one attempt at one instance.

The process is started again after each crash. It speaks over a pair of connected sockets: a
question is the instance and the solver's seed, the answer a label, or why there is none.
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

_START_SECONDS = 120.0  # for Python and the solver, on a busy machine


@contextlib.contextmanager
def run_isolated(city: City, recipe: LabelRecipe, unit: Unit) -> Iterator[Callable[[int], Outcome]]:
    """Yield the function that labels instance (n, i) for i, in a process that may die of it.

    A crash is tried again with the same seed, as it may have come from outside, an instance
    without an answer with the next one.
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
    """The process, started when it is first asked, and again after it has died."""

    def __init__(self, city: City, recipe: LabelRecipe, n: int) -> None:
        self._task = (city, recipe, n)
        self._process: subprocess.Popen[str] | None = None
        self._connection: Connection | None = None

    def ask(self, i: int, seed: int, seconds: float) -> Outcome | str:
        """Return the answer for instance (n, i), or how the process died over it within ``seconds``."""
        process, connection = self._running()
        try:
            connection.send((i, seed))
            if not connection.poll(seconds):
                self.stop()
                return f"the solver took longer than {seconds:.0f} s"
            answer: Outcome | str = connection.recv()
            return answer
        except (EOFError, OSError):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1.0)
            died = _death(process.poll())
            self.stop()
            return died

    def stop(self) -> None:
        """End the process, if there is one."""
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
                    env={**os.environ, "PYTHONSAFEPATH": "1"},
                    stdout=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                )
            self._greet(self._connection)
        return self._process, self._connection

    def _greet(self, connection: Connection) -> None:
        """Give the process its task and wait for it: what goes wrong here is no instance's fault."""
        try:
            connection.send(self._task)
            if connection.poll(_START_SECONDS) and connection.recv() is None:
                return
        except (EOFError, OSError):
            pass
        self.stop()
        raise McvrpError("the isolated process did not start: look at the machine's memory")


def _death(code: int | None) -> str:
    if code is None:
        return "the solver stopped answering"
    if code < 0:
        return f"the solver died with {signal.Signals(-code).name}"
    return f"the solver ended with exit code {code}"


def main() -> None:
    """Answer questions until nobody asks any more."""
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
            require_sound(city, n, LabelArrays.of(label_table([outcome]), n))
        return outcome
    except Exception as error:  # whatever it is, it is this instance's, and the reason is kept
        return f"{type(error).__name__}: {' '.join(str(error).split())}"


if __name__ == "__main__":
    main()
