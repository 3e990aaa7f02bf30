"""Pool of single-threaded processes: this one, and Python's own once there is enough work for them.

PyTorch's threads synchronize after every operation and spin while they wait, which on a busy machine costs
many times their work; processes synchronize once per task. A task has the same result in any process, so
results do not depend on their number.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from mcvrp.model.errors import IncompleteError
from mcvrp.shared_array import dumps, shared_array
from mcvrp.tasks.support.processes import CHILD_ENVIRONMENT, environment

# Seconds of processor time of tasks for which children are started: to start one takes 1.5 to 2 s, mostly
# to import PyTorch.
_WORTH = 6.0
_AHEAD = 2  # tasks per child in flight: one running, one waiting

C = TypeVar("C", bound=tuple[Any, ...])
T = TypeVar("T")
R = TypeVar("R")


class Pool:
    """Pool of ``cores`` processes, this one included; children are started for ``worth`` seconds of work.

    They end with the pool or their parent. A script that uses a pool itself needs the usual
    ``if __name__ == "__main__"``, as with all processes of Python's `multiprocessing`.
    """

    def __init__(self, cores: int, worth: float = _WORTH) -> None:
        self._children, self._worth = cores - 1, worth
        self._seconds = 0.0  # processor time of the tasks done in this process
        self._executor: ProcessPoolExecutor | None = None
        self._alive: Connection | None = None  # children end when it is closed
        self._starting: list[Future[Any]] = []
        self._context: tuple[Any, ...] | None = None  # the last one, as it was sent
        self._sent: NDArray[np.uint8] = np.empty(0, np.uint8)
        self._number = 0

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
        seconds, count = 0.0, 0
        try:
            while waiting or running:
                left = seconds / count * len(waiting) if count else 0.0
                if self._seconds + left >= self._worth:
                    self._start(work, context)
                most = self._share(len(waiting) + len(running))
                while len(running) < most:
                    index = waiting.popleft()
                    running[self._submit(work, context, tasks[index])] = index
                if waiting:
                    index, began = waiting.popleft(), time.thread_time()
                    results[index] = work(context, tasks[index])
                    spent = time.thread_time() - began
                    seconds, count, self._seconds = seconds + spent, count + 1, self._seconds + spent
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
        if self._executor and self._alive:
            self._alive.close()
            self._executor.shutdown(cancel_futures=True)
        self._executor, self._alive, self._starting = None, None, []

    def _start(self, work: Callable[[C, T], R], context: C) -> None:
        """Start the children, unless they have been: they begin with the imports of ``work``."""
        if self._executor or not self._children:
            return
        spawn = multiprocessing.get_context("spawn")  # a fork would have PyTorch's locks, not its threads
        theirs, self._alive = spawn.Pipe(duplex=False)
        self._executor = ProcessPoolExecutor(self._children, spawn, _end_with, (theirs,))
        with environment(CHILD_ENVIRONMENT):  # of the children: each of these starts one
            message = self._message(work, context)
            for _ in range(self._children):
                self._starting.append(self._executor.submit(_load, self._number, message))

    def _share(self, unfinished: int) -> int:
        """Return how many of the ``unfinished`` tasks the children should have now, none while they start."""
        if not self._executor or not all(future.done() for future in self._starting):
            return 0
        return min(_AHEAD * self._children, unfinished * self._children // (self._children + 1))

    def _submit(self, work: Callable[[C, T], R], context: C, task: T) -> Future[bytes]:
        assert self._executor
        message = self._message(work, context)
        return self._executor.submit(_run, self._number, message, dumps(task))

    def _message(self, work: Callable[[C, T], R], context: C) -> bytes:
        if self._context is None or not _same(self._context, context):
            self._context, self._sent, self._number = context, _in_shared_memory(context), self._number + 1
        return dumps((work, self._sent))


def _same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


def _in_shared_memory(context: tuple[Any, ...]) -> NDArray[np.uint8]:
    """Return ``context`` pickled, as an array that is sent to processes as a reference."""
    content = np.frombuffer(dumps(context), np.uint8)
    shared = shared_array((-(-len(content) // 8),)).view(np.uint8)[: len(content)]
    shared[:] = content
    return shared


# In the children.


def _end_with(parent: Connection) -> None:
    """End this process when its parent has closed its end of the pipe, or has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: the parent decides

    def watch() -> None:
        with contextlib.suppress(EOFError, OSError):
            parent.recv_bytes()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


_contexts: dict[int, Any] = {}  # the last one, by its number


def _load(number: int, message: bytes) -> None:
    _loaded(number, message)


def _run(number: int, message: bytes, task: bytes) -> bytes:
    work = _loaded(number, message)
    return dumps(work(_contexts[number], pickle.loads(task)))  # noqa: S301 our parent's


def _loaded(number: int, message: bytes) -> Callable[[Any, Any], Any]:
    work, sent = pickle.loads(message)  # noqa: S301 our parent's
    if number not in _contexts:
        _contexts.clear()
        _contexts[number] = pickle.loads(sent.data)  # noqa: S301
    return work
