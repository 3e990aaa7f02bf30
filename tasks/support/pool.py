"""Pool of single-threaded processes: this one, and children that are started once there is enough work.

PyTorch's threads synchronize after every operation and spin while they wait, which on a busy machine costs
many times their work; processes synchronize once per task. A task has the same result in any process, so
results do not depend on their number. Children are separate programs, which never import the caller's main
module.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, Self, TypeVar

from mcvrp.tasks.support.processes import Child, parent, receive, send

logger = logging.getLogger(__name__)

# Seconds of processor time of the tasks per child. To start a child takes 1.5 to 2 s, mostly to import
# PyTorch: at most a third of it.
_WORTH = 6.0

C = TypeVar("C", bound=tuple[Any, ...])
T = TypeVar("T")
R = TypeVar("R")


class Pool:
    """Pool of at most ``cores`` processes, this one included; children end with the pool or their parent.

    A child is started per ``worth`` seconds of work, done and expected. Use the pool from one thread: the
    kernel kills children when the thread that started them ends.
    """

    def __init__(self, cores: int, worth: float = _WORTH) -> None:
        self._max_children, self._worth = cores - 1, worth
        self._children: list[_Child] = []
        self._own_seconds = 0.0  # processor time of the tasks done in this process

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
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

        ``work`` is a function of a module; its exceptions are raised here. A part of ``context`` is sent to a
        child once, and again if it is another object, so parts must not be modified.
        """
        job = _Job(work, context, tasks, deque(range(len(tasks))))
        seconds, count = 0.0, 0
        try:
            self._share(job, 0.0)
            while len(job.results) < len(tasks) and not job.error:
                if (index := job.take()) is None:
                    job.changes.get()  # a child has done its task, or failed, or given it back
                    continue
                began = time.thread_time()
                job.results[index] = work(context, tasks[index])
                seconds += (spent := time.thread_time() - began)
                count += 1
                self._own_seconds += spent
                self._share(job, seconds / count * len(job.waiting))
            if job.error:
                raise job.error
            return [job.results[index] for index in range(len(tasks))]
        except BaseException:
            job.waiting.clear()
            self.close()
            raise

    def close(self) -> None:
        """Stop the children."""
        for child in self._children:
            child.stop()
        self._children = []

    def _share(self, job: _Job, left: float) -> None:
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


@dataclass
class _Job:
    """Tasks of a call, shared by threads: operations on its deque and dictionary are atomic."""

    work: Callable[[Any, Any], Any]
    context: tuple[Any, ...]
    tasks: Sequence[Any]
    waiting: deque[int]  # indices of the tasks that no process has taken
    results: dict[int, Any] = field(default_factory=dict)
    error: Exception | None = None
    changes: SimpleQueue[None] = field(default_factory=SimpleQueue)  # an entry per change by a child

    def take(self) -> int | None:
        with contextlib.suppress(IndexError):
            return self.waiting.popleft()
        return None

    def fail(self, error: Exception) -> None:
        self.error = error
        self.waiting.clear()
        self.changes.put(None)


class _Child:
    """Child process, and the thread of this process that sends tasks to it."""

    def __init__(self) -> None:
        self._child = Child(__name__)
        self.seconds = 0.0  # processor time
        self.worked = self.dead = False
        self._held: tuple[Any, ...] = ()  # the context that it has
        self._thread: threading.Thread | None = None

    def join_in(self, job: _Job) -> None:
        """Do tasks of ``job`` while there are any, unless the process does so already."""
        if not self.dead and not (self._thread and self._thread.is_alive()):
            self._thread = threading.Thread(target=self._drive, args=(job,), daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop the process; its current task is lost."""
        self.dead = True
        self._child.stop(grace=0.5)

    def _drive(self, job: _Job) -> None:
        index, connection = None, self._child.connection
        try:
            send(connection, (job.work, len(job.context), self._new(job.context)))
            self._held = job.context
            receive(connection)  # after its imports, so that they do not delay a task
            while (index := job.take()) is not None:
                send(connection, (job.tasks[index],))
                error, result, seconds = receive(connection)
                self.worked, self.seconds = True, self.seconds + seconds
                if error:
                    job.fail(error)
                else:
                    job.results[index] = result
                    job.changes.put(None)
            send(connection, None)
        except (EOFError, OSError):
            if not self.dead:
                self.dead = True
                logger.warning("a child process %s: the others do its tasks", self._child.death())
            if index is not None:
                job.waiting.appendleft(index)
                job.changes.put(None)
        except Exception as error:
            job.fail(error)

    def _new(self, context: tuple[Any, ...]) -> dict[int, Any]:
        held = self._held
        return {k: part for k, part in enumerate(context) if k >= len(held) or held[k] is not part}


def main() -> None:
    """Do tasks until the parent closes the connection."""
    connection = parent()
    context: tuple[Any, ...] = ()
    while True:
        try:
            work, length, new = receive(connection)
            context = tuple(new[k] if k in new else context[k] for k in range(length))
            send(connection, None)
            while (task := receive(connection)) is not None:
                began, error, result = time.process_time(), None, None
                try:
                    result = work(context, task[0])
                except Exception as raised:  # raised in the parent
                    error = raised
                send(connection, (error, result, time.process_time() - began))
        except EOFError:
            return


if __name__ == "__main__":
    main()
