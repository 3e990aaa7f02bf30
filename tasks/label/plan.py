"""Plan of a run of labelling: what of the dataset is missing, cut into units of work.

Where rows lie in shards depends on the spec alone; how many units there are may change from run to
run, as what an earlier run has staged is used whatever its cut. Everything goes size by size and
shard by shard: nothing here holds a list of all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.labels.files import LabelFile
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.quarantine import Quarantine
from mcvrp.tasks.label.spec import LabelSpec, Source, seconds_an_instance
from mcvrp.tasks.label.work import Unit

_LONGEST_UNIT = 60.0  # seconds: what a lost worker may cost
_SHORTEST_UNIT = 1.0  # seconds: below, starting the unit would cost more than a few per cent
_UNITS_A_WORKER = 16  # where there is little to do, so that all workers end at about the same time
_SUSPECTS_A_UNIT = 16  # instances that may each take their time limit


@dataclass
class ShardJob:
    """A shard that is not there yet, or not whole: what there is of it, and what is missing.

    ``suspects`` are missing rows that an earlier run could not solve; ``units`` counts what is
    being made of it and not yet back.
    """

    n: int
    k: int
    start: int
    stop: int
    sources: list[LabelFile]
    gaps: list[tuple[int, int]]
    suspects: frozenset[int] = frozenset()
    units: int = 0
    failed: bool = False

    @property
    def missing(self) -> int:
        """The number of rows to label."""
        return sum(stop - start for start, stop in self.gaps)

    @property
    def fresh(self) -> bool:
        """True if there is nothing of it, and nothing known against it."""
        return not self.sources and not self.suspects and self.gaps == [(self.start, self.stop)]


@dataclass
class Missing:
    """Rows that each size lacks, zero where they are only to be merged; ``suspects`` are (n, i)."""

    by_size: dict[int, int] = field(default_factory=dict)
    suspects: set[tuple[int, int]] = field(default_factory=set)

    @property
    def rows(self) -> int:
        """The number of rows to label."""
        return sum(self.by_size.values())

    def seconds(self, spec: LabelSpec) -> float:
        """Return about how long one core takes for them."""
        return sum(rows * seconds_an_instance(spec, n) for n, rows in self.by_size.items())


def count_missing(dataset: Dataset, source: Source, quarantine: Quarantine | None = None) -> Missing:
    """Return how many rows are missing; errors as in `survey`."""
    missing = Missing()
    for n in source.spec.sizes:
        known = quarantine.rows(n) if quarantine else frozenset()
        for job in survey(dataset, source, n, quarantined=known):
            missing.by_size[n] = missing.by_size.get(n, 0) + job.missing
            missing.suspects.update((n, i) for i in job.suspects)
    return missing


def survey(
    dataset: Dataset, source: Source, n: int, *, quarantined: frozenset[int] = frozenset()
) -> Iterator[ShardJob]:
    """Yield the shards of size ``n`` to make, from what is there.

    A corrupt file counts as missing; rows in ``quarantined`` become suspects where they are missing.

    Raises
    ------
    McvrpError
        If a file where a shard or a staged chunk should be is foreign, or of another dataset.
    """
    store, spec = dataset.store, source.spec
    staged = store.files(layout.staged_dir(spec.dataset, n))
    staged = [file for file in staged if layout.staged_rows(file.path)]
    chunks = _ours(store, source, dataset.label_files(n, staged, skip_corrupt=True))
    waiting = sorted(chunks, key=lambda chunk: chunk.footer.row_start, reverse=True)
    present = _ours(store, source, dataset.shards(n, skip_corrupt=True))
    shard = next(present, None)
    near: list[LabelFile] = []  # staged chunks with rows of this shard
    for k, start in enumerate(range(0, spec.count, spec.shard_rows)):
        stop = min(spec.count, start + spec.shard_rows)
        while waiting and waiting[-1].footer.row_start < stop:
            near.append(waiting.pop())
        near = [chunk for chunk in near if chunk.footer.row_stop > start]
        sources = list(near)
        if shard and layout.shard_number(shard.path) == k:
            _check_place(store, shard, start, start + spec.shard_rows)
            whole = next(missing_rows([shard], start, stop), None) is None
            sources.append(shard)
            shard = next(present, None)
        else:
            whole = False
        if whole:
            continue
        gaps = list(missing_rows(sources, start, stop))
        known = {row for source in sources for row in source.footer.absent} | quarantined
        suspects = frozenset(row for row in known if any(a <= row < b for a, b in gaps))
        yield ShardJob(n, k, start, stop, sources, gaps, suspects)


def _ours(store: Store, source: Source, files: Iterable[LabelFile]) -> Iterator[LabelFile]:
    city_id, spec_hash = source.city.city_id, source.recipe.spec_hash
    for file in files:
        if (file.footer.city_id, file.footer.spec_hash) != (city_id, spec_hash):
            raise McvrpError(
                f"{store.url(file.path)} belongs to another dataset (city {file.footer.city_id}, spec "
                f"{file.footer.spec_hash}; this one: {city_id}, {spec_hash}): move it away"
            )
        yield file


def _check_place(store: Store, shard: LabelFile, start: int, stop: int) -> None:
    rows = shard.footer
    if rows.row_start != start or rows.row_stop > stop:
        raise McvrpError(
            f"{store.url(shard.path)} has rows {rows.row_start} to {rows.row_stop}, "
            f"this place is for {start} to {stop}: move it away"
        )


def missing_rows(files: Sequence[LabelFile], start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield the runs of rows from ``start`` to ``stop`` (excluded) that none of ``files`` has."""
    there: list[tuple[int, int]] = []
    for footer in (file.footer for file in files):
        bounds = [footer.row_start - 1, *footer.absent, footer.row_stop]
        there += [(before + 1, after) for before, after in pairwise(bounds) if before + 1 < after]
    for first, last in sorted(there):
        if start < min(first, stop):
            yield start, min(first, stop)
        start = max(start, last)
    if start < stop:
        yield start, stop


def sweep(store: Store, source: Source) -> None:
    """Remove the staged files whose rows are in a shard: a driver killed while it merged leaves them."""
    spec = source.spec
    dataset = Dataset.open(store, spec.dataset, trust=False)  # before anything goes, its shard is looked at
    staged = (layout.size_of(name) for name in store.folders(layout.staging_dir(spec.dataset)))
    for n in sorted(n for n in staged if n is not None and n in spec.sizes):
        needed = {s.path for job in survey(dataset, source, n) for s in job.sources}
        kept = 0
        for path in store.list(layout.staged_dir(spec.dataset, n)):
            rows = layout.staged_rows(path)
            if rows and rows[1] <= spec.count and path not in needed:
                store.delete(path)
            else:
                kept += 1
        if not kept:
            store.delete(layout.staged_dir(spec.dataset, n))
    if not store.list(layout.staging_dir(spec.dataset)):
        store.delete(layout.staging_dir(spec.dataset))


def unit_seconds(total: float, workers: int) -> float:
    """Return how long a unit should take where ``total`` seconds of work are to be done."""
    return min(max(total / (workers * _UNITS_A_WORKER), _SHORTEST_UNIT), _LONGEST_UNIT)


def cut_into_units(
    spec: LabelSpec, jobs: Iterable[ShardJob], seconds: float
) -> Iterator[tuple[list[ShardJob], Unit | None]]:
    """Yield units of about ``seconds`` with the shards that each is for, and count those still to be merged.

    A unit is either one shard or several whole, which its worker publishes itself, or a run of
    missing rows of one, which is staged; None where all rows of one are staged. Suspects are in
    units of their own, to be solved isolated.
    """
    whole: list[ShardJob] = []
    for job in jobs:
        estimate = seconds_an_instance(spec, job.n)
        rows = max(1, round(seconds / estimate))
        if whole and not (
            job.fresh
            and (job.n, job.start) == (whole[-1].n, whole[-1].stop)
            and job.stop - whole[0].start <= rows
        ):
            yield _whole(spec, whole)
            whole = []
        if job.fresh and job.missing <= rows:
            whole.append(job)
            continue
        if not job.gaps:
            yield [job], None
        runs = [
            Unit(job.n, a, b, isolated=isolated, seconds=(b - a) * estimate)
            for a, b, isolated in _runs(job, rows)
        ]
        job.units = len(runs)
        yield from (([job], run) for run in runs)
    if whole:
        yield _whole(spec, whole)


def _whole(spec: LabelSpec, jobs: list[ShardJob]) -> tuple[list[ShardJob], Unit]:
    n, start, stop = jobs[0].n, jobs[0].start, jobs[-1].stop
    seconds = (stop - start) * seconds_an_instance(spec, n)
    return jobs, Unit(n, start, stop, shard_rows=spec.shard_rows, seconds=seconds)


def _runs(job: ShardJob, rows: int) -> Iterator[tuple[int, int, bool]]:
    """Yield the gaps of ``job`` in runs of at most ``rows``, each with whether it is of suspects."""
    for start, stop in job.gaps:
        first = start
        for row in range(start + 1, stop + 1):
            isolated = first in job.suspects
            limit = min(rows, _SUSPECTS_A_UNIT) if isolated else rows
            if row == stop or (row in job.suspects) != isolated or row - first == limit:
                yield first, row, isolated
                first = row
