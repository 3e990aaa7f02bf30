"""Pool of processes of one thread each: this one and, once the work is worth it, children beside it.

Threads of one process meet after every operation and spin while they wait, which on a busy machine costs
many times their work; processes meet once per task. A task has the same result wherever it is done, so
results do not depend on the number of processes. Children are programs of their own, which never import
the caller's main module. Knows neither networks nor instances.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from mcvrp.tasks.support.processes import start_group, stop_group

logger = logging.getLogger(__name__)

# Seconds of processor time for each child that is started. To start one takes 1.5 to 2, most of it the import
# of PyTorch: a third at most.
_WORTH = 6.0
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONSAFEPATH": "1"}

C = TypeVar("C", bound=tuple[Any, ...])
T = TypeVar("T")
R = TypeVar("R")


class Pool:
    """At most ``cores`` processes, this one included; children end with the pool, and with their parent.

    To be used from one thread: the kernel ends children with the thread that started them.

    Parameters
    ----------
    cores
        Most processes; 1 has no children.
    worth
        Seconds of work, done and expected, for each child that is started.
    """

    def __init__(self, cores: int, worth: float = _WORTH) -> None:
        self._most, self._worth = cores - 1, worth
        self._children: list[_Child] = []
        self._own_seconds = 0.0  # of processor time, for tasks that were done in this process

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def processes(self) -> int:
        """Number of processes that have worked and still do, this one included."""
        return 1 + sum(child.worked and not child.dead for child in self._children)

    @property
    def children_seconds(self) -> float:
        """Processor time of the tasks that children have done."""
        return sum(child.seconds for child in self._children)

    def map(self, work: Callable[[C, T], R], context: C, tasks: Sequence[T]) -> list[R]:
        """Return ``work(context, task)`` for each of ``tasks``, in their order.

        Parameters
        ----------
        work
            A function of a module.
        context
            Its parts are sent to a child once, and again when another object takes the place of one: they
            must not be changed in between.

        Raises
        ------
        Exception
            What ``work`` raises, in whichever process.
        """
        job = _Job(work, context, tasks)
        seconds, count = 0.0, 0
        try:
            self._share(job, 0.0)
            while (place := job.take(wait=True)) is not None:
                began = time.thread_time()
                job.finish(place, work(context, tasks[place]))
                seconds += (spent := time.thread_time() - began)
                count += 1
                self._own_seconds += spent
                self._share(job, seconds / count * job.waiting)
            return job.results()
        except BaseException:
            job.end()
            self.close()
            raise

    def close(self) -> None:
        """End the children."""
        for child in self._children:
            child.stop()
        self._children = []

    def _share(self, job: _Job[C, T, R], left: float) -> None:
        """Have children take tasks of ``job``, as many as the work so far and ``left`` seconds are worth."""
        work = self._own_seconds + self.children_seconds + left
        while len(self._children) < self._most and work >= self._worth * (1 + len(self._children)):
            try:
                self._children.append(_Child())
            except OSError as error:
                logger.warning("no process could be started to share the work (%s)", error)
                self._most = len(self._children)
        for child in self._children if job.waiting else ():
            child.join_in(job)


class _Job(Generic[C, T, R]):
    """Tasks that wait, and the results of the others."""

    def __init__(self, work: Callable[[C, T], R], context: C, tasks: Sequence[T]) -> None:
        self.work, self.context, self.tasks = work, context, tasks
        self._places = deque(range(len(tasks)))
        self._found: dict[int, R] = {}
        self._error: BaseException | None = None
        self._changed = threading.Condition()

    @property
    def waiting(self) -> int:
        """Number of tasks that nobody has taken."""
        return len(self._places)

    def take(self, *, wait: bool = False) -> int | None:
        """Return the place of a task to do; None where there is none, or with ``wait`` will be none."""
        with self._changed:
            while wait and not self._places and not self._error and len(self._found) < len(self.tasks):
                self._changed.wait()
            return self._places.popleft() if self._places else None

    def finish(self, place: int, found: R) -> None:
        """Keep the result of the task at ``place``."""
        with self._changed:
            self._found[place] = found
            self._changed.notify_all()

    def give_back(self, place: int) -> None:
        """Let somebody else do the task at ``place``."""
        with self._changed:
            self._places.appendleft(place)
            self._changed.notify_all()

    def end(self, error: BaseException | None = None) -> None:
        """Give up what nobody has taken."""
        with self._changed:
            self._places.clear()
            self._error = error
            self._changed.notify_all()

    def results(self) -> list[R]:
        """Return all results; raises what has ended the job."""
        if self._error:
            raise self._error
        return [self._found[place] for place in range(len(self.tasks))]


@dataclass(eq=False)
class _Child:
    """A process that does tasks, and the thread of ours that hands them to it."""

    seconds: float = 0.0  # of processor time
    worked: bool = False
    dead: bool = False
    _held: tuple[Any, ...] = ()  # what it has of a context
    _driver: threading.Thread | None = None
    _process: subprocess.Popen[str] = field(init=False)
    _connection: Connection = field(init=False)

    def __post_init__(self) -> None:
        self._connection, theirs = Pipe()
        with theirs:
            self._process = start_group(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                env={**os.environ, **_ENVIRONMENT},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,  # what goes wrong with a task is in its answer
                pass_fds=[theirs.fileno()],
            )

    def join_in(self, job: _Job[Any, Any, Any]) -> None:
        """Do tasks of ``job`` as long as there are any, unless at work already."""
        if not self.dead and not (self._driver and self._driver.is_alive()):
            self._driver = threading.Thread(target=self._drive, args=(job,), daemon=True)
            self._driver.start()

    def stop(self) -> None:
        """End the process; the task that it is at is nobody's."""
        self.dead = True
        stop_group(self._process, grace=0.5)

    def _drive(self, job: _Job[Any, Any, Any]) -> None:
        place = None
        try:
            _send(self._connection, (job.work, len(job.context), self._new(job.context)))
            self._held = job.context
            _receive(self._connection)  # it has imported what it needs: what is left by then is shared
            while (place := job.take()) is not None:
                _send(self._connection, (job.tasks[place],))
                error, found, seconds = _receive(self._connection)
                self.worked, self.seconds = True, self.seconds + seconds
                if error:
                    job.end(error)
                else:
                    job.finish(place, found)
            _send(self._connection, None)
        except (EOFError, OSError):
            if not self.dead:
                self.dead = True
                logger.warning(
                    "a process that shared the work %s: the others do its part", _death(self._process)
                )
            if place is not None:
                job.give_back(place)
        except Exception as error:
            job.end(error)

    def _new(self, context: tuple[Any, ...]) -> dict[int, Any]:
        held = self._held
        return {k: part for k, part in enumerate(context) if k >= len(held) or held[k] is not part}


# Plain pickle: a connection's own `send` would hand over tensors as shared files, of which a process that is
# no child of `multiprocessing` is refused the other end.
def _send(connection: Connection, message: object) -> None:
    connection.send_bytes(pickle.dumps(message))


def _receive(connection: Connection) -> Any:
    return pickle.loads(connection.recv_bytes())  # noqa: S301 our own process is at the other end


def _death(process: subprocess.Popen[str]) -> str:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(1.0)
    if process.returncode == -signal.SIGKILL:
        return "died with SIGKILL, as it does where memory is short"
    return f"ended with exit code {process.returncode}"


def main() -> None:
    """Do tasks until nobody gives any more."""
    connection = Connection(int(sys.argv[1]))
    context: tuple[Any, ...] = ()
    while True:
        try:
            work, length, new = _receive(connection)
            context = tuple(new[k] if k in new else context[k] for k in range(length))
            _send(connection, None)
            while (given := _receive(connection)) is not None:
                _send(connection, _answer(work, context, given[0]))
        except EOFError:
            return


def _answer(
    work: Callable[[Any, Any], Any], context: tuple[Any, ...], task: object
) -> tuple[Exception | None, Any, float]:
    began, error, found = time.process_time(), None, None
    try:
        found = work(context, task)
    except Exception as raised:  # whatever it is, the caller is told
        error = raised
    return error, found, time.process_time() - began


if __name__ == "__main__":
    main()
