"""The stage that labels: every instance of a dataset that has no label yet is solved, on all cores.

Each unit of work stages a file of rows; when a shard's rows are all staged they are merged and
published as one. Run again, it does what is missing.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field

import ray

from model.errors import IncompleteError, McvrpError
from model.problem import City
from storage import layout
from storage.labels import read_files
from storage.manifest import rebuild_manifest
from storage.store import Store
from tasks.label_chunk import Receipt, Recipe, label_rows, make_solver, merge_shard
from tasks.label_plan import ShardJob, cut_into_units, survey, sweep
from tasks.label_spec import LabelSpec, seconds_an_instance
from tasks.progress import Progress
from tasks.ray_cluster import ray_session

__all__ = ["LabelSpec", "LabelSummary", "label_missing", "labels_missing", "seconds_an_instance"]

_WINDOW = 2  # units a worker in Ray's hands: one at work, one waiting
_WAIT_SECONDS = 0.5  # how long Ctrl-C may wait for us


@dataclass(frozen=True)
class LabelSummary:
    """What a run of the stage did.

    Parameters
    ----------
    rows
        Labels that the spec asks for; all are there.
    new
        Labels made by this run.
    seconds
        Wall-clock time.
    solving
        Seconds that the solvers of all workers took together.
    workers
        Instances solved at a time.
    """

    dataset: str
    rows: int
    new: int
    seconds: float
    solving: float
    workers: int


def label_missing(store: Store, city: City, spec: LabelSpec) -> LabelSummary:
    """Make every label of ``spec`` that ``store`` lacks.

    Raises
    ------
    McvrpError
        If the spec contradicts the dataset of that name or asks more than the city has, or a file
        where a shard should be is not one; nothing has been changed then.
    IncompleteError
        If some instances got no answer; names the first, all others are stored.
    """
    began = time.monotonic()
    recipe = spec.recipe(city)
    jobs = _jobs(store, city, spec, recipe)
    rows = spec.count * len(spec.sizes)
    missing = sum(job.missing for job in jobs)
    labelled, solving, workers = 0, 0.0, 0
    failures: list[str] = []
    if jobs:
        shared = 0 if city.matrix is None else city.matrix.nbytes
        with ray_session(spec.workers, shared_bytes=shared) as workers:
            _write_spec(store, city, spec)
            with Progress(f"labels {spec.dataset}", rows, "labels", done=rows - missing) as progress:
                work = _Work(store, city, spec, recipe, jobs, workers, progress)
                work.run()
        labelled, solving, failures = work.labelled, work.solving, work.failures
    else:
        _write_spec(store, city, spec)
    sweep(store, spec.dataset)
    rebuild_manifest(store, spec.dataset, trust=True)
    if failures:
        lacking = sum(job.missing for job in survey(store, spec, recipe, city))
        raise IncompleteError(
            f"dataset {spec.dataset!r} lacks {lacking:,} of {rows:,} labels; first: {failures[0]}"
        )
    return LabelSummary(spec.dataset, rows, labelled, time.monotonic() - began, solving, workers)


def labels_missing(store: Store, city: City, spec: LabelSpec) -> int:
    """Return how many labels of ``spec`` are missing; McvrpError as in `label_missing`."""
    return sum(job.missing for job in _jobs(store, city, spec, spec.recipe(city)))


def _jobs(store: Store, city: City, spec: LabelSpec, recipe: Recipe) -> list[ShardJob]:
    _check(store, city, spec, recipe)
    return survey(store, spec, recipe, city)


def _check(store: Store, city: City, spec: LabelSpec, recipe: Recipe) -> None:
    if spec.largest > city.customers:
        raise McvrpError(
            f"largest = {spec.largest}: the city has {city.customers} customers, ask for no more of them"
        )
    for n in spec.sizes:
        spec.rules.capacity_range(n)
    if spec.solver == "hgs":
        from tasks.solvers.hgs import require_symmetric

        require_symmetric(city)
    if spec.solver == "lkh3" and city.matrix is not None:
        raise McvrpError("LKH-3 takes straight lines only and the city has a matrix: use solver pyvrp")
    make_solver(recipe)
    path = layout.label_spec(spec.dataset)
    if store.exists(path):
        there = store.get_json(path)
        asked = spec.identity(city)
        there = there if isinstance(there, dict) else {}
        differing = [key for key in asked if there.get(key) != asked[key]]
        if differing:
            details = "; ".join(f"{key} is {there.get(key)!r}, asked {asked[key]!r}" for key in differing)
            raise McvrpError(
                f"dataset {spec.dataset!r} was made otherwise ({details}): ask for the same, or another name"
            )


def _write_spec(store: Store, city: City, spec: LabelSpec) -> None:
    path = layout.label_spec(spec.dataset)
    asked = {"smallest": spec.smallest, "largest": spec.largest, "count": spec.count}
    if store.exists(path):
        there = store.get_json(path)
        asked["smallest"] = min(asked["smallest"], there["smallest"])
        asked["largest"] = max(asked["largest"], there["largest"])
        asked["count"] = max(asked["count"], there["count"])
    document = {**spec.identity(city), **asked}
    if not store.exists(path) or store.get_json(path) != document:
        store.put_json(path, document)


@dataclass
class _Work:
    """The driver: a bounded number of units in Ray's hands, and what came back."""

    store: Store
    city: City
    spec: LabelSpec
    recipe: Recipe
    jobs: list[ShardJob]
    workers: int
    progress: Progress
    labelled: int = 0
    solving: float = 0.0
    failures: list[str] = field(default_factory=list)

    def run(self) -> None:
        city = ray.put(self.city)
        label = ray.remote(num_cpus=1)(label_rows)
        merge = ray.remote(num_cpus=1)(merge_shard)
        units = cut_into_units(self.spec, self.jobs, self.workers)
        ready = deque(job for job in self.jobs if not job.gaps)
        flying: dict[ray.ObjectRef, tuple[ShardJob, int]] = {}  # and the labels of each, 0 for a merge
        while True:
            while ready and len(flying) < _WINDOW * self.workers:
                job = ready.popleft()
                where = (job.n, job.k, job.start, job.stop, job.sources)
                flying[merge.remote(self.store, city, self.recipe, *where)] = (job, 0)
            while len(flying) < _WINDOW * self.workers and (unit := next(units, None)):
                job, start, stop = unit
                flying[label.remote(self.store, city, self.recipe, job.n, start, stop)] = (job, stop - start)
            if not flying:
                return
            done, _ = ray.wait(list(flying), num_returns=1, timeout=_WAIT_SECONDS)
            for reference in done:
                job, rows = flying.pop(reference)
                receipt = self._receipt(reference, job)
                if not rows:
                    continue
                job.units -= 1
                if receipt:
                    self.labelled += receipt.rows
                    self.solving += receipt.solving
                    self.progress.advance(receipt.rows)
                    job.sources.append(read_files(self.store, [receipt.path])[0])
                if not job.units and not job.failed:
                    ready.append(job)
            if len(self.failures) >= _WINDOW * self.workers and not self.labelled:
                return  # nothing succeeds

    def _receipt(self, reference: ray.ObjectRef, job: ShardJob) -> Receipt | None:
        try:
            return ray.get(reference)
        except ray.exceptions.RayTaskError as error:
            if not isinstance(error.cause, McvrpError):
                raise
            self.failures.append(str(error.cause))
        except ray.exceptions.RayError as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            self.failures.append(f"a worker on n={job.n} was lost ({reason})")
        job.failed = True
        return None
