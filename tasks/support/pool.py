"""Pool of single-threaded processes: this one, and children that are started once there is enough work.

PyTorch's threads synchronize after every operation and spin while they wait, which on a busy machine costs
many times their work; processes synchronize once per task. A task has the same result in any process, so
results do not depend on their number. Children are separate programs, which never import the caller's main
module.
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

# Seconds of processor time of the tasks per child. To start a child takes 1.5 to 2 s, mostly to import
# PyTorch: at most a third of it.
_WORTH = 6.0
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONSAFEPATH": "1"}

C = TypeVar("C", bound=tuple[Any, ...])
T = TypeVar("T")
R = TypeVar("R")


class Pool:
    """Pool of at most ``cores`` processes, this one included; children end with the pool or their parent.

    Use it from one thread: the kernel kills children when the thread that started them ends.

    Parameters
    ----------
    cores
        Maximum number of processes (1: no children).
    worth
        Seconds of work, done and expected, per child.
    """

    def __init__(self, cores: int, worth: float = _WORTH) -> None:
        self._max_children, self._worth = cores - 1, worth
        self._children: list[_Child] = []
        self._own_seconds = 0.0  # processor time of the tasks done in this process

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def processes(self) -> int:
        """Number of running processes that have done a task, this one included."""
        return 1 + sum(child.worked and not child.dead for child in self._children)

    @property
    def children_seconds(self) -> float:
        """Processor time of the tasks done by children."""
        return sum(child.seconds for child in self._children)

    def map(self, work: Callable[[C, T], R], context: C, tasks: Sequence[T]) -> list[R]:
        """Return ``work(context, task)`` for each of ``tasks``, in their order.

        Parameters
        ----------
        work
            A function of a module.
        context
            Arguments of all tasks. A part is sent to a child once, and again if it is another object, so
            parts must not be modified.

        Raises
        ------
        Exception
            Exceptions of ``work``, in any process.
        """
        job = _Job(work, context, tasks)
        seconds, count = 0.0, 0
        try:
            self._share(job, 0.0)
            while (index := job.take(wait=True)) is not None:
                began = time.thread_time()
                job.finish(index, work(context, tasks[index]))
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
        """Stop the children."""
        for child in self._children:
            child.stop()
        self._children = []

    def _share(self, job: _Job[C, T, R], left: float) -> None:
        """Let children take tasks of ``job``: as many as past work and ``left`` seconds of it are worth."""
        work = self._own_seconds + self.children_seconds + left
        while len(self._children) < self._max_children and work >= self._worth * (1 + len(self._children)):
            try:
                self._children.append(_Child())
            except OSError as error:
                logger.warning("cannot start another process (%s)", error)
                self._max_children = len(self._children)
        for child in self._children if job.waiting else ():
            child.join_in(job)


class _Job(Generic[C, T, R]):
    """Waiting tasks, and the results of the others."""

    def __init__(self, work: Callable[[C, T], R], context: C, tasks: Sequence[T]) -> None:
        self.work, self.context, self.tasks = work, context, tasks
        self._waiting = deque(range(len(tasks)))
        self._results: dict[int, R] = {}
        self._error: BaseException | None = None
        self._changed = threading.Condition()

    @property
    def waiting(self) -> int:
        """Number of tasks that no process has taken."""
        return len(self._waiting)

    def take(self, *, wait: bool = False) -> int | None:
        """Return the index of a task; None if none is left, or with ``wait`` if none will be returned."""
        with self._changed:
            while wait and not self._waiting and not self._error and len(self._results) < len(self.tasks):
                self._changed.wait()
            return self._waiting.popleft() if self._waiting else None

    def finish(self, index: int, result: R) -> None:
        """Store the result of the task ``index``."""
        with self._changed:
            self._results[index] = result
            self._changed.notify_all()

    def give_back(self, index: int) -> None:
        """Return the task ``index``, for another process to take."""
        with self._changed:
            self._waiting.appendleft(index)
            self._changed.notify_all()

    def end(self, error: BaseException | None = None) -> None:
        """Drop the waiting tasks."""
        with self._changed:
            self._waiting.clear()
            self._error = error
            self._changed.notify_all()

    def results(self) -> list[R]:
        """Return all results; raises the error that ended the job."""
        if self._error:
            raise self._error
        return [self._results[index] for index in range(len(self.tasks))]


@dataclass(eq=False)
class _Child:
    """Child process, and the thread of this process that sends tasks to it."""

    seconds: float = 0.0  # processor time
    worked: bool = False
    dead: bool = False
    _held: tuple[Any, ...] = ()  # the context that it has
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
                stderr=subprocess.DEVNULL,  # errors of a task are in its result
                pass_fds=[theirs.fileno()],
            )

    def join_in(self, job: _Job[Any, Any, Any]) -> None:
        """Do tasks of ``job`` while there are any, unless the process does so already."""
        if not self.dead and not (self._driver and self._driver.is_alive()):
            self._driver = threading.Thread(target=self._drive, args=(job,), daemon=True)
            self._driver.start()

    def stop(self) -> None:
        """Stop the process; its current task is lost."""
        self.dead = True
        stop_group(self._process, grace=0.5)

    def _drive(self, job: _Job[Any, Any, Any]) -> None:
        index = None
        try:
            _send(self._connection, (job.work, len(job.context), self._new(job.context)))
            self._held = job.context
            _receive(self._connection)  # after its imports, so that they do not delay a task
            while (index := job.take()) is not None:
                _send(self._connection, (job.tasks[index],))
                error, result, seconds = _receive(self._connection)
                self.worked, self.seconds = True, self.seconds + seconds
                if error:
                    job.end(error)
                else:
                    job.finish(index, result)
            _send(self._connection, None)
        except (EOFError, OSError):
            if not self.dead:
                self.dead = True
                logger.warning("a child process %s: the others do its tasks", _death(self._process))
            if index is not None:
                job.give_back(index)
        except Exception as error:
            job.end(error)

    def _new(self, context: tuple[Any, ...]) -> dict[int, Any]:
        held = self._held
        return {k: part for k, part in enumerate(context) if k >= len(held) or held[k] is not part}


# Plain pickle: `Connection.send` would pass tensors as shared files, which only children that were started by
# `multiprocessing` can open.
def _send(connection: Connection, message: object) -> None:
    connection.send_bytes(pickle.dumps(message))


def _receive(connection: Connection) -> Any:
    return pickle.loads(connection.recv_bytes())  # noqa: S301 our own process is at the other end


def _death(process: subprocess.Popen[str]) -> str:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(1.0)
    if process.returncode == -signal.SIGKILL:
        return "was killed, possibly because memory ran out"
    return f"ended with exit code {process.returncode}"


def main() -> None:
    """Do tasks until the parent closes the connection."""
    connection = Connection(int(sys.argv[1]))
    context: tuple[Any, ...] = ()
    while True:
        try:
            work, length, new = _receive(connection)
            context = tuple(new[k] if k in new else context[k] for k in range(length))
            _send(connection, None)
            while (task := _receive(connection)) is not None:
                _send(connection, _result(work, context, task[0]))
        except EOFError:
            return


def _result(
    work: Callable[[Any, Any], Any], context: tuple[Any, ...], task: object
) -> tuple[Exception | None, Any, float]:
    began, error, result = time.process_time(), None, None
    try:
        result = work(context, task)
    except Exception as raised:  # raised in the parent
        error = raised
    return error, result, time.process_time() - began


if __name__ == "__main__":
    main()
