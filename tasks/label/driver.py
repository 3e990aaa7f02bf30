"""Driver of a labelling run: keeps a bounded number of units in flight on Ray and handles their results.

A unit is sent, counts and then a receipt come back; the unit of a lost worker is sent again, isolated. Memory
does not grow with the number of shards.
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
from mcvrp.storage.labels.label_files import CorruptFile, LabelFile
from mcvrp.storage.labels.shards import Shard
from mcvrp.storage.store.lease import Lease
from mcvrp.storage.store.store import StoreError
from mcvrp.tasks.label.plan import EARLY_UNITS, LabelDataset, Missing, ShardJob, cut_into_units, survey
from mcvrp.tasks.label.spec import seconds_per_instance
from mcvrp.tasks.label.work import Unit, UnitCount, UnitReceipt
from mcvrp.tasks.label.worker import label_unit, merge_shard
from mcvrp.tasks.support.progress import Progress
from mcvrp.tasks.support.ray_session import ClusterLost, CoreCount, require_cluster
from mcvrp.tasks.support.ray_window import WAIT_SECONDS, WINDOW

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0  # between two checks for hanging units
_PAUSE_SECONDS = 5.0  # between two of them; anything longer was a pause of this process
_RESULTS_PER_WAIT = 1 / 64  # of the units in flight: a wait for many costs as much as for one
_COUNT_SECONDS = 10.0  # between two counts of the cluster's cores
_LOSSES = 5  # lost workers per unit, before it is left to the next run
_TRIES = 50  # per unit, if the store answers the others but not this one
_NOTHING = UnitCount()
_MERGE_LIMIT = 1800.0  # seconds: reading and writing a shard takes far less


@dataclass
class _Task:
    """Work that is in flight or queued: a unit, or the merge of the single shard in ``jobs``."""

    jobs: list[ShardJob]
    unit: Unit | None = None
    losses: int = 0
    tries: int = 0
    heard: float = 0.0  # when the last result came, or it was sent
    started: bool = False
    count: UnitCount = _NOTHING  # labels of the unit while it is in flight

    @property
    def limit(self) -> float:
        return self.unit.limit if self.unit else _MERGE_LIMIT

    def __str__(self) -> str:
        job = self.jobs[0]
        rows = self.unit or job
        return f"{'rows' if self.unit else 'the merge of rows'} {rows.start} to {rows.stop} of n={job.n}"


@dataclass
class Driver:
    """Labelling of one dataset.

    ``labelled`` labels were made in ``solving`` solver seconds. ``retried`` units were repeated, ``failures``
    of them because their worker was lost. ``lost`` are the units and merges that the last run gave up, with
    the reason, and ``unmerged`` the files of their shards: one may be corrupt.
    """

    dataset: LabelDataset
    lease: Lease
    workers: int = 0
    labelled: int = 0
    solving: float = 0.0
    retried: int = 0
    failures: int = 0
    lost: list[str] = field(default_factory=list)
    unmerged: set[str] = field(default_factory=set)
    _left: float = 0.0  # seconds of one core: labels that have not been counted
    _running: UnitCount = _NOTHING  # labels of the units in flight
    _counted: float = 0.0
    _looked: float = math.inf
    _cores: CoreCount = field(default_factory=CoreCount)
    _empty_units: int = 0  # that came back without a label, or not at all
    _retry_queue: deque[_Task] = field(default_factory=deque)
    _in_flight: dict[ray.ObjectRefGenerator, _Task] = field(default_factory=dict)

    def run(self, missing: Missing, workers: int, progress: Progress) -> None:
        """Label as much of what is ``missing`` as possible, ``workers`` units at a time.

        Raises StoreError if the store refuses, IncompleteError if it does not answer for minutes, and
        ClusterLost if Ray is gone; the units in flight are still missing.
        """
        self.workers, self.lost, self.unmerged = workers, [], set()
        tasks = self._tasks(missing)
        # Ray does not retry: a lost worker is this driver's evidence that an instance kills its solver.
        city = ray.put(self.dataset.source.city)
        send = ray.remote(num_cpus=1, max_retries=0, num_returns="streaming")(_within)
        self._left, self._running, progress.saved = self._seconds(missing), _NOTHING, progress.done
        self._looked, before = time.monotonic(), progress.done - self.labelled
        self._show(progress)
        progress.begin()
        try:
            while True:
                self.lease.check()
                require_cluster()
                self._count_workers()
                while len(self._in_flight) < WINDOW * self.workers and (task := self._next(tasks)):
                    task.heard, task.started = time.monotonic(), False
                    self._in_flight[send.remote(*self._call(task, city))] = task
                if not self._in_flight:
                    return
                self._collect()
                progress.saved = before + self.labelled + self._running.stored
                self._show(progress)
                if time.monotonic() - self._looked > _LOOK_SECONDS:
                    self._cancel_hanging()
                if not self.labelled and self._empty_units >= WINDOW * self.workers:
                    return  # nothing succeeds: a missing library, not a hard instance
        except ClusterLost:
            self.labelled += self._running.stored  # the next survey finds them staged
            self._running = _NOTHING
            self._in_flight.clear()  # nothing is left to cancel
            self._retry_queue.clear()
            self._cores = CoreCount()  # a pending request to this cluster means nothing to the next
            raise
        # Units still in flight end with the session, and the rows that they stage are kept. Cancelling a unit
        # that is just coming back would make Ray abort this process and leave its own processes behind.

    def _count_workers(self) -> None:
        """Adapt to nodes that have joined or left, unless the spec limits the workers."""
        if self.dataset.spec.workers is None and time.monotonic() - self._counted > _COUNT_SECONDS:
            self._counted = time.monotonic()
            self.workers = self._cores() or self.workers

    def _tasks(self, missing: Missing) -> Iterator[_Task]:
        spec = self.dataset.spec
        share, limits = self._seconds(missing) / self.workers, iter(EARLY_UNITS)
        for n in sorted(missing.by_size):  # surveyed one by one: all jobs of a run may be very many
            for jobs, unit in cut_into_units(spec, survey(self.dataset, n), share, limits):
                yield _Task(jobs, unit)

    def _next(self, tasks: Iterator[_Task]) -> _Task | None:
        return self._retry_queue.popleft() if self._retry_queue else next(tasks, None)

    def _call(self, task: _Task, city: ray.ObjectRef) -> tuple[Any, ...]:
        store, recipe = self.dataset.store, self.dataset.source.recipe
        if task.unit:
            # With the seeds that earlier runs have not tried: the same seed would fail again.
            unit = replace(task.unit, seeds=self.dataset.quarantine.seeds(task.unit))
            return task.limit, label_unit, store, city, recipe, unit
        job = task.jobs[0]
        shard = layout.label_shard(recipe.dataset, job.n, job.k)
        rows = (job.n, job.start, job.stop, job.sources)
        return task.limit, merge_shard, store, city, recipe.spec_hash, shard, *rows

    def _seconds(self, missing: Missing) -> float:
        """Return the estimated time of one core for what is ``missing``."""
        return sum(rows * seconds_per_instance(self.dataset.spec, n) for n, rows in missing.by_size.items())

    def _show(self, progress: Progress) -> None:
        """Report the labels that are stored, and those of units in flight."""
        progress.left = self._left
        made, stored = self._running
        progress.update((progress.saved or 0) + made - stored, self._note())

    def _count(self, task: _Task, count: UnitCount) -> None:
        """Note how many labels the unit of ``task`` has made so far."""
        made, stored = count.made - task.count.made, count.stored - task.count.stored
        if task.unit:
            self._left -= made * task.unit.seconds / task.unit.rows
        self._running = UnitCount(self._running.made + made, self._running.stored + stored)
        task.count = count

    def _collect(self) -> None:
        """Wait for some results and handle them."""
        results = max(1, int(len(self._in_flight) * _RESULTS_PER_WAIT))
        done, _ = ray.wait(list(self._in_flight), num_returns=results, timeout=WAIT_SECONDS)
        for stream in done:
            if self._handle_result(self._in_flight[stream], next(stream)):
                del self._in_flight[stream]

    def _handle_result(self, task: _Task, reference: ray.ObjectRef) -> bool:
        """Handle a result of ``task``; return whether it has ended."""
        task.heard, task.started = time.monotonic(), True
        try:
            receipt: UnitReceipt | Shard | UnitCount = ray.get(reference)
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, StoreError):
                raise error.cause from None
            if not task.unit or isinstance(error.cause, CorruptFile):  # repeated, it would fail again
                self._give_up(task, f"{error.cause}")
            else:
                self._once_more(task, f"{type(error.cause).__name__}: {error.cause}", lost=True)
            return True
        except ray.exceptions.RayError as error:
            self._once_more(task, f"its worker was lost ({reason(error)})", lost=True)
            return True
        if isinstance(receipt, UnitCount):
            self._count(task, receipt)
            return False
        if isinstance(receipt, Shard):
            self.dataset.labels.note([receipt])
        if not task.unit or not isinstance(receipt, UnitReceipt):
            return True
        self._count(task, _NOTHING)
        self.dataset.labels.note(receipt.shards)
        self._left -= task.unit.seconds
        self.dataset.quarantine.note(task.unit, receipt.failures)
        self._empty_units += not (receipt.rows or task.unit.isolated)
        self.labelled += receipt.rows
        self.solving += receipt.solving
        if receipt.chunk:
            self._end_unit(task.jobs[0], receipt.chunk)
        return True

    def _end_unit(self, job: ShardJob, chunk: LabelFile | None) -> None:
        """Count a unit of ``job`` as finished; the last one queues the merge, if all have staged a chunk."""
        job.units -= 1
        if chunk:
            job.sources = [source for source in job.sources if source.path != chunk.path] + [chunk]
        else:
            job.failed = True
        if not job.units and not job.failed:
            self._retry_queue.append(_Task([job]))

    def _once_more(self, task: _Task, reason: str, *, lost: bool = False) -> None:
        """Queue ``task`` again, isolated if its worker was ``lost``; give it up after too many tries."""
        task.tries += 1
        task.losses = (0 if task.count.made else task.losses) + lost  # what it has labelled is not lost
        self._count(task, _NOTHING)
        self.failures += lost
        if task.losses < _LOSSES and task.tries < _TRIES:
            self.retried += 1
            if lost and task.unit:
                task.unit = replace(task.unit, isolated=True)
                # One instance of the unit may have killed the worker: isolated, only that one fails.
                logger.warning("%s: %s; tried again, isolated", task, reason)
            self._retry_queue.append(task)
            return
        self._give_up(task, reason)

    def _give_up(self, task: _Task, reason: str) -> None:
        self.lost.append(f"{task}: {reason}")
        logger.warning("%s: %s; given up", task, reason)
        self._count(task, _NOTHING)
        self.unmerged.update(source.path for source in task.jobs[0].sources)
        if not task.unit:
            return
        self._empty_units += 1
        if not task.unit.shard_rows:
            self._end_unit(task.jobs[0], None)

    def _cancel_hanging(self) -> None:
        """Cancel units whose worker hangs beyond the alarm of `_within`, such as in a stopped process."""
        running, now = any(task.started for task in self._in_flight.values()), time.monotonic()
        paused, self._looked = max(0.0, now - self._looked - _PAUSE_SECONDS), now
        for reference, task in self._in_flight.items():
            task.heard += paused  # while this process waited for the store, no result was handled
            if running and not task.started:
                task.heard = now  # it is queued behind others
            elif now - task.heard > 2 * (task.limit if task.started else _MERGE_LIMIT):
                ray.cancel(reference, force=True)

    def _note(self) -> str:
        counts = {
            "retried": self.retried,
            "given up": len(self.lost),
            "quarantined": len(self.dataset.quarantine.entries),
        }
        return ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)


def _within(seconds: float, work: Callable[..., Any], *arguments: Any) -> Iterator[Any]:
    """Yield a count, then what ``work(*arguments)`` yields; the kernel ends it after ``seconds`` without."""
    yield _NOTHING  # it has started: from now on the driver expects a result within ``seconds``
    # The default action instead of a Python handler, which would wait for a solver to return from C++.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        result = work(*arguments)
        if isinstance(result, Iterator):
            for answer in result:
                yield answer
                signal.setitimer(signal.ITIMER_REAL, seconds)
        else:
            yield result
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
