"""The driver of labelling: a bounded number of units in Ray's hands, and what becomes of each.

It knows no instance: a unit goes out, a receipt comes back, and a unit whose worker was lost goes
out again, isolated. What it holds does not grow with the number of shards.
"""

from __future__ import annotations

import logging
import math
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import ray

from mcvrp.model.errors import reason
from mcvrp.storage import layout
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.labels.files import LabelFile
from mcvrp.storage.store.lease import Lease
from mcvrp.storage.store.retry import StoreRetry
from mcvrp.storage.store.store import StoreError, StoreUnavailable
from mcvrp.tasks.label.plan import Missing, ShardJob, cut_into_units, survey, unit_seconds
from mcvrp.tasks.label.publish import merge_shard
from mcvrp.tasks.label.quarantine import Quarantine
from mcvrp.tasks.label.spec import Source
from mcvrp.tasks.label.work import Unit, UnitReceipt
from mcvrp.tasks.label.worker import label_unit
from mcvrp.tasks.support.progress import Progress
from mcvrp.tasks.support.ray_session import ClusterLost, CoreCount, require_cluster
from mcvrp.tasks.support.ray_window import WAIT_SECONDS, WINDOW

logger = logging.getLogger(__name__)

_PAUSE_SECONDS = 5.0  # between two looks at what hangs, more is a pause of ours
_COUNT_SECONDS = 10.0  # between two looks at how many workers there are
_LOSSES = 5  # of a unit, before it is left to the next run
_TRIES = 50  # of a unit, where the store answers others but not it
_MERGE_LIMIT = 1800.0  # seconds: a shard is read and written in far less


@dataclass
class _Task:
    """Work in Ray's hands or on its way there: a unit, or the merge of the one shard in ``jobs``."""

    jobs: list[ShardJob]
    unit: Unit | None = None
    losses: int = 0
    tries: int = 0
    sent: float = 0.0

    @property
    def limit(self) -> float:
        return self.unit.limit if self.unit else _MERGE_LIMIT

    def __str__(self) -> str:
        job = self.jobs[0]
        rows = self.unit or job
        return f"{'rows' if self.unit else 'the merge of rows'} {rows.start} to {rows.stop} of n={job.n}"


@dataclass
class Driver:
    """One run of labelling.

    Attributes
    ----------
    labelled, solving
        Labels made, and the solver's seconds for them.
    retried, failures
        How often a unit had to be done again, and how often because its worker was lost.
    lost
        Why units and merges were given up in the last run.
    unmerged
        Files of the shards whose merge was given up: one of them may be corrupt.
    """

    dataset: Dataset
    source: Source
    quarantine: Quarantine
    retry: StoreRetry
    lease: Lease
    workers: int = 0
    labelled: int = 0
    solving: float = 0.0
    retried: int = 0
    failures: int = 0
    lost: list[str] = field(default_factory=list)
    unmerged: set[str] = field(default_factory=set)
    _counted: float = 0.0
    _looked: float = math.inf
    _cores: CoreCount = field(default_factory=CoreCount)
    _empty_units: int = 0  # units that came back without a label, or not at all
    _retry_queue: deque[_Task] = field(default_factory=deque)
    _in_flight: dict[ray.ObjectRef, _Task] = field(default_factory=dict)

    def run(self, missing: Missing, workers: int, progress: Progress) -> None:
        """Do all that is ``missing``, as far as it can be done, ``workers`` units at a time.

        Raises
        ------
        StoreError
            If the store refuses.
        IncompleteError
            If it gives no answer for minutes.
        ClusterLost
            If Ray is gone; what was in its hands is missing still.
        """
        self.workers, self.lost, self.unmerged = workers, [], set()
        tasks = self._tasks(missing)
        city, send = ray.put(self.source.city), ray.remote(num_cpus=1, max_retries=0)(_within)
        try:
            while True:
                self.lease.check()
                require_cluster()
                self._count_workers()
                while len(self._in_flight) < WINDOW * self.workers and (task := self._next(tasks)):
                    task.sent = time.monotonic()
                    self._in_flight[send.remote(*self._call(task, city))] = task
                if not self._in_flight:
                    return
                done, _ = ray.wait(list(self._in_flight), num_returns=1, timeout=WAIT_SECONDS)
                made = sum(
                    self._handle_result(self._in_flight.pop(reference), reference) for reference in done
                )
                progress.advance(made, self._note())
                self._cancel_hanging()
                if not self.labelled and self._empty_units >= WINDOW * self.workers:
                    return  # nothing succeeds
        except ClusterLost:
            self._in_flight.clear()  # there is nobody to ask to stop
            self._retry_queue.clear()
            self._cores = CoreCount()  # an open question of this cluster means nothing to the next
            raise
        # What is left in flight ends with the session, and what it stages is kept. To cancel a unit that
        # is just coming back would have Ray abort this process, and leave its own behind.

    def _count_workers(self) -> None:
        """Take note of machines that have come or gone; a limit of the spec stays one."""
        if self.source.spec.workers is None and time.monotonic() - self._counted > _COUNT_SECONDS:
            self._counted = time.monotonic()
            self.workers = self._cores() or self.workers

    def _tasks(self, missing: Missing) -> Iterator[_Task]:
        seconds = unit_seconds(missing.seconds(self.source.spec), self.workers)
        for n in sorted(missing.by_size):
            jobs_of_size = survey(self.dataset, self.source, n, quarantined=self.quarantine.rows(n))
            for jobs, unit in cut_into_units(self.source.spec, jobs_of_size, seconds):
                yield _Task(jobs, unit)

    def _next(self, tasks: Iterator[_Task]) -> _Task | None:
        return self._retry_queue.popleft() if self._retry_queue else next(tasks, None)

    def _call(self, task: _Task, city: ray.ObjectRef) -> tuple[Any, ...]:
        # Workers are impatient: what waits for the store in here does not hang there until it is killed.
        store, recipe = self.dataset.store.outlasting(0), self.source.recipe
        if task.unit:
            unit = replace(task.unit, seeds=self.quarantine.seeds(task.unit))  # tried otherwise than before
            return task.limit, label_unit, store, city, recipe, unit
        job = task.jobs[0]
        shard = layout.label_shard(recipe.dataset, job.n, job.k)
        where = (recipe.spec_hash, shard, job.n, job.start, job.stop, job.sources)
        return task.limit, merge_shard, store, city, *where

    def _handle_result(self, task: _Task, reference: ray.ObjectRef) -> int:
        """Take in what became of ``task``; return how many labels it has made."""
        try:
            receipt: UnitReceipt | None = ray.get(reference)
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, StoreUnavailable):
                self.retry.outlast(error.cause)
                self._once_more(task, f"{error.cause}")
            elif isinstance(error.cause, StoreError):
                raise error.cause from None
            elif not task.unit:  # the files are at fault, and the next try would say the same
                self._give_up(task, f"{error.cause}")
            else:
                self._once_more(task, f"{type(error.cause).__name__}: {error.cause}", lost=True)
            return 0
        except ray.exceptions.RayError as error:
            self._once_more(task, f"its worker was lost ({reason(error)})", lost=True)
            return 0
        self.retry.answered()
        if not task.unit or not receipt:
            return 0
        self.quarantine.note(task.unit, receipt.failures)
        self._empty_units += not (receipt.rows or task.unit.isolated)
        self.labelled += receipt.rows
        self.solving += receipt.solving
        if receipt.chunk:
            self._end_unit(task.jobs[0], receipt.chunk)
        return receipt.rows

    def _end_unit(self, job: ShardJob, chunk: LabelFile | None) -> None:
        """Count a unit of ``job`` as back; the last one sends the shard to be merged, if all have a chunk."""
        job.units -= 1
        if chunk:
            job.sources.append(chunk)
        else:
            job.failed = True
        if not job.units and not job.failed:
            self._retry_queue.append(_Task([job]))

    def _once_more(self, task: _Task, reason: str, *, lost: bool = False) -> None:
        """Do ``task`` again, isolated where it was ``lost``; give it up when it was often enough."""
        task.tries += 1
        task.losses += lost
        self.failures += lost
        if task.losses < _LOSSES and task.tries < _TRIES:
            self.retried += 1
            if lost and task.unit:
                task.unit = replace(task.unit, isolated=True)
                logger.warning("%s: %s; tried again, isolated", task, reason)
            self._retry_queue.append(task)
            return
        self._give_up(task, reason)

    def _give_up(self, task: _Task, reason: str) -> None:
        self.lost.append(f"{task}: {reason}")
        logger.warning("%s: %s; given up", task, reason)
        if not task.unit:
            self.unmerged.update(source.path for source in task.jobs[0].sources)
            return
        self._empty_units += 1
        if not task.unit.shard_rows:
            self._end_unit(task.jobs[0], None)

    def _cancel_hanging(self) -> None:
        """Cancel what a worker that cannot even be timed out keeps: its turn has come after one limit."""
        longest = 2 * max((task.limit for task in self._in_flight.values()), default=0.0)
        now = time.monotonic()
        paused, self._looked = max(0.0, now - self._looked - _PAUSE_SECONDS), now
        for reference, task in self._in_flight.items():
            task.sent += paused  # while we waited for the store nobody took in what was done
            if now - task.sent > longest:
                ray.cancel(reference, force=True)

    def _note(self) -> str:
        counts = {
            "retried": self.retried,
            "given up": len(self.lost),
            "quarantined": len(self.quarantine.entries),
        }
        return ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)


def _within(seconds: float, work: Callable[..., Any], *arguments: Any) -> Any:
    """Return ``work(*arguments)``; after ``seconds`` the kernel ends this process, whatever it is at."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return work(*arguments)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
