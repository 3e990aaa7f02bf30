"""Pool of single-threaded processes: this one, and Python's own once there is enough work for them.

PyTorch's threads synchronize after every operation and spin while they wait, which on a busy machine costs
many times their work; processes synchronize once per task. A task has the same result in any process, so
results do not depend on their number.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache
from itertools import count
from multiprocessing.process import BaseProcess
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from mcvrp.model.errors import IncompleteError
from mcvrp.shared_array import dumps, shared_array
from mcvrp.tasks.support.processes import CHILD_ENVIRONMENT, die_with_parent, environment

# Seconds of processor time of tasks for which children are started: to start one takes 1.5 to 2 s, mostly
# to import PyTorch.
_WORTH = 6.0
_AHEAD = 2  # tasks per child in flight: one running, one waiting

C = TypeVar("C", bound=tuple[Any, ...])
T = TypeVar("T")
R = TypeVar("R")

_numbers = count()  # of contexts: another one may be at the same place in memory


class Pool:
    """Pool of ``cores`` processes, this one included; children are started for ``worth`` seconds of work.

    They end with the pool, or the thread that started them. A script that uses a pool itself needs the usual
    ``if __name__ == "__main__"``, as with all processes of Python's `multiprocessing`.
    """

    def __init__(self, cores: int, worth: float = _WORTH) -> None:
        self._children, self._worth = cores - 1, worth
        self._seconds = 0.0  # processor time of the tasks done in this process
        self._executor: ProcessPoolExecutor | None = None
        self._processes: set[BaseProcess] = set()
        self._starting: list[Future[Any]] = []
        self._context: tuple[Any, ...] | None = None  # the last one
        self._sent: NDArray[np.uint8] = np.empty(0, np.uint8)  # its content, in shared memory
        self._message = b""  # its number and a reference to its content

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def processes(self) -> int:
        """Number of processes that do tasks, this one included."""
        return 1 + (self._children if self._executor else 0)

    def map(self, work: Callable[[C, T], R], context: C, tasks: Sequence[T]) -> list[R]:
        """Return ``work(context, task)`` for each of ``tasks``, in their order.

        ``work`` is a function of a module; its exceptions are raised here. The parts of ``context`` must not
        be modified: a context of the same parts is not sent again. IncompleteError if a child was killed.
        """
        waiting, results = deque(range(len(tasks))), dict[int, R]()
        running: dict[Future[bytes], int] = {}
        seconds = 0.0
        try:
            while waiting or running:
                left = seconds / len(results) * len(waiting) if results else 0.0
                if self._seconds + left >= self._worth:
                    self._start(work)
                most = self._share(len(waiting) + len(running))
                while len(running) < most:
                    index = waiting.popleft()
                    running[self._submit(work, context, tasks[index])] = index
                if waiting:
                    index, began = waiting.popleft(), time.thread_time()
                    results[index] = work(context, tasks[index])
                    spent = time.thread_time() - began
                    seconds, self._seconds = seconds + spent, self._seconds + spent
                for future in wait(running, 0.0 if waiting else None, FIRST_COMPLETED).done:
                    results[running.pop(future)] = pickle.loads(future.result())  # noqa: S301 our own child's
        except BrokenProcessPool as error:
            self.close()
            raise IncompleteError(
                "a process was killed, possibly because memory ran out: run the command again"
            ) from error
        except BaseException:
            self.close()
            raise
        return [results[index] for index in range(len(tasks))]

    def close(self) -> None:
        """End the children; their current tasks are lost."""
        for process in self._processes:
            process.kill()
        if self._executor:
            self._executor.shutdown(cancel_futures=True)
        self._executor, self._processes, self._starting = None, set(), []

    def _start(self, work: Callable[[C, T], R]) -> None:
        """Start the children, unless they have been: they begin with the imports of ``work``."""
        if self._executor or not self._children:
            return
        spawn = multiprocessing.get_context("spawn")  # a fork would have PyTorch's locks, not its threads
        self._executor = ProcessPoolExecutor(self._children, spawn, _begin, (os.getpid(),))
        others = set(multiprocessing.active_children())
        with environment(CHILD_ENVIRONMENT):  # of the children: each of these starts one
            self._starting = [self._executor.submit(callable, work) for _ in range(self._children)]
        self._processes = set(multiprocessing.active_children()) - others

    def _share(self, unfinished: int) -> int:
        """Return how many of the ``unfinished`` tasks the children should have now, none while they start."""
        if not self._executor or not all(future.done() for future in self._starting):
            return 0
        return min(_AHEAD * self._children, unfinished * self._children // (self._children + 1))

    def _submit(self, work: Callable[[C, T], R], context: C, task: T) -> Future[bytes]:
        assert self._executor
        if self._context is None or list(map(id, self._context)) != list(map(id, context)):
            content = np.frombuffer(dumps(context), np.uint8)
            self._sent = shared_array((-(-len(content) // 8),)).view(np.uint8)[: len(content)]
            self._sent[:] = content
            self._context, self._message = context, dumps((next(_numbers), self._sent))
        return self._executor.submit(_run, work, self._message, dumps(task))


# In the children.


def _begin(parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: the parent decides
    die_with_parent(parent)


def _run(work: Callable[[Any, Any], Any], message: bytes, task: bytes) -> bytes:
    return dumps(work(_context(message), pickle.loads(task)))  # noqa: S301 our parent's


@lru_cache(maxsize=1)
def _context(message: bytes) -> Any:
    _, content = pickle.loads(message)  # noqa: S301 our parent's
    return pickle.loads(content.data)  # noqa: S301
