"""Plan of a labelling run: which rows of the dataset are missing, cut into units of work.

The rows of a shard depend on the spec alone, staged rows of an earlier run are used however they were cut.
Everything is processed by size and shard: nothing here holds all of them but one listing of their files.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, pairwise, repeat

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.cities import city_parent
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.labels.label_files import LabelFile
from mcvrp.storage.provenance import FIELD, made, provenance_in
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.quarantine import Quarantine
from mcvrp.tasks.label.spec import LabelSpec, Source, SpecDocument, seconds_per_instance
from mcvrp.tasks.label.work import Unit

CHUNKS_PER_SHARD = 64  # each a file that is read and deleted; more only if workers would otherwise be idle
_LONGEST_UNIT = 60.0  # seconds: beyond, units grow only for fewer chunks per shard
_SHORTEST_UNIT = 1.0  # seconds: shorter units spend more than a few per cent on their start
_UNITS_PER_WORKER = 16  # if there is little work, so that all workers finish at about the same time
_FEWEST_PER_WORKER = 2  # units, however few chunks these make per shard
# Seconds of the first units of a run: something is kept, and counted, soon after its start.
EARLY_UNITS = (*(5.0,) * 4, *(10.0,) * 4, *(20.0,) * 4, *(40.0,) * 4)
_SUSPECTS_PER_UNIT = 16  # instances that may each take their time limit


@dataclass
class LabelDataset:
    """A dataset, which only the holder of its lease may change: all that is read of it once."""

    labels: Dataset
    source: Source
    document: SpecDocument
    quarantine: Quarantine

    @classmethod
    def open(cls, store: Store, source: Source) -> LabelDataset:
        """Return the dataset of ``source``; McvrpError if it was made from another spec or city."""
        name = source.spec.dataset
        document = SpecDocument.read(store, name)
        document.require_same(store, source)
        return cls(Dataset.open(store, name), source, document, Quarantine.load(store, name))

    @property
    def store(self) -> Store:
        return self.labels.store

    @property
    def spec(self) -> LabelSpec:
        return self.source.spec

    def write_spec(self, *, labelling: bool = False) -> None:
        """Store the spec, extended by that of this run; before ``labelling`` with this run as a maker."""
        document = self.document.extended(self.source)
        if labelling:
            parent = city_parent(self.store, self.source.city.city_id)
            provenance = made([parent], provenance_in(document.fields))
            document = SpecDocument({**document.fields, FIELD: asdict(provenance)})
        if document != self.document:
            self.store.put_json(layout.label_spec(self.spec.dataset), document.fields)
            self.document = document


@dataclass
class ShardJob:
    """A shard that does not exist or is incomplete: the files that have rows of it, and the missing rows.

    An earlier run could not solve the ``suspects``; so many ``units`` of work have not come back yet.
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
        return sum(stop - start for start, stop in self.gaps)

    @property
    def fresh(self) -> bool:
        """True if no row of it exists, and none is suspected."""
        return not self.sources and not self.suspects and self.gaps == [(self.start, self.stop)]


@dataclass
class Missing:
    """Missing rows by size, zero if they only have to be merged; ``suspects`` are (n, i)."""

    by_size: dict[int, int] = field(default_factory=dict)
    suspects: set[tuple[int, int]] = field(default_factory=set)

    @property
    def rows(self) -> int:
        return sum(self.by_size.values())


def count_missing(dataset: LabelDataset) -> Missing:
    """Return how many rows are missing; raises as `survey` does."""
    missing, staging = Missing(), layout.staging_dir(dataset.spec.dataset)
    dataset = replace(dataset, labels=dataset.labels.listed())
    staged = set(map(layout.size_of, dataset.store.folders(staging)))
    for n in dataset.spec.sizes:
        for job in survey(dataset, n, staged=n in staged):
            missing.by_size[n] = missing.by_size.get(n, 0) + job.missing
            missing.suspects.update((n, i) for i in job.suspects)
    return missing


def survey(dataset: LabelDataset, n: int, *, staged: bool = True) -> Iterator[ShardJob]:
    """Yield the shards of size ``n`` that have to be made, from the files that exist, also ``staged`` ones.

    A corrupt file counts as missing; missing rows that are quarantined become suspects. Raises McvrpError if
    a file at the path of a shard or staged chunk is foreign, or of another dataset.
    """
    store, spec, quarantined = dataset.store, dataset.spec, dataset.quarantine.rows(n)
    files = store.files(layout.staged_dir(spec.dataset, n)) if staged else ()
    files = [file for file in files if layout.staged_rows(file.path)]
    chunks: dict[int, list[LabelFile]] = {}  # by shard: no chunk has rows of two
    for chunk in _own(dataset, dataset.labels.label_files(n, files, skip_corrupt=True)):
        chunks.setdefault(chunk.footer.row_start // spec.shard_rows, []).append(chunk)
    shards = _own(dataset, dataset.labels.shards(n, skip_corrupt=True))
    shard = next(shards, None)
    for k, start in enumerate(range(0, spec.count, spec.shard_rows)):
        stop = min(spec.count, start + spec.shard_rows)
        sources = [chunk for chunk in chunks.get(k, []) if chunk.footer.row_start < stop]
        if shard and layout.shard_number(shard.path) == k:
            _check_rows(store, shard, start, start + spec.shard_rows)
            existing, shard = shard, next(shards, None)
            if next(missing_rows([existing], start, stop), None) is None:
                continue
            sources.append(existing)
        gaps = list(missing_rows(sources, start, stop))
        unsolved = {row for source in sources for row in source.footer.absent} | quarantined
        suspects = frozenset(row for row in unsolved if any(a <= row < b for a, b in gaps))
        yield ShardJob(n, k, start, stop, sources, gaps, suspects)


def _own(dataset: LabelDataset, files: Iterable[LabelFile]) -> Iterator[LabelFile]:
    """Yield ``files``; McvrpError if one is of another dataset, which could not be told apart once merged."""
    city_id, spec_hash = dataset.source.city.city_id, dataset.source.recipe.spec_hash
    for file in files:
        if (file.footer.city_id, file.footer.spec_hash) != (city_id, spec_hash):
            raise McvrpError(
                f"{dataset.store.url(file.path)} belongs to another dataset (city {file.footer.city_id}, "
                f"spec {file.footer.spec_hash}; expected {city_id}, {spec_hash}): move it away"
            )
        yield file


def _check_rows(store: Store, shard: LabelFile, start: int, stop: int) -> None:
    rows = shard.footer
    if rows.row_start != start or rows.row_stop > stop:
        raise McvrpError(
            f"{store.url(shard.path)} has rows {rows.row_start} to {rows.row_stop}, "
            f"expected {start} to {stop}: move it away"
        )


def missing_rows(files: Sequence[LabelFile], start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of rows from ``start`` to ``stop`` (excluded) that are in none of ``files``."""
    present: list[tuple[int, int]] = []
    for footer in (file.footer for file in files):
        bounds = [footer.row_start - 1, *footer.absent, footer.row_stop]
        present += [(before + 1, after) for before, after in pairwise(bounds) if before + 1 < after]
    for first, last in sorted(present):
        if start < min(first, stop):
            yield start, min(first, stop)
        start = max(start, last)
    if start < stop:
        yield start, stop


def sweep(dataset: LabelDataset) -> None:
    """Remove staged files whose rows are in a shard, left by a driver that was killed during a merge."""
    store, spec = dataset.store, dataset.spec
    # Every footer is read: nothing is deleted because of what a list says of the shard that replaces it.
    dataset = replace(dataset, labels=Dataset.open(store, spec.dataset, trust=False))
    staged = (layout.size_of(name) for name in store.folders(layout.staging_dir(spec.dataset)))
    for n in sorted(n for n in staged if n is not None and n in spec.sizes):
        needed = {source.path for job in survey(dataset, n) for source in job.sources}
        paths = store.list(layout.staged_dir(spec.dataset, n))
        # Rows beyond the count of this run belong to a larger one, which may still merge them.
        ours = [path for path in paths if (rows := layout.staged_rows(path)) and rows[1] <= spec.count]
        store.delete_files([path for path in ours if path not in needed])
    if not store.list(layout.staging_dir(spec.dataset)):
        store.delete(layout.staging_dir(spec.dataset))


def unit_rows(shard_rows: int, estimate: float, share: float) -> int:
    """Return the rows of a unit of a shard with ``shard_rows`` rows of about ``estimate`` seconds each.

    ``share`` is the work in seconds per worker.
    """
    seconds = min(max(share / _UNITS_PER_WORKER, _SHORTEST_UNIT), _LONGEST_UNIT)
    few_chunks = min(math.ceil(shard_rows / CHUNKS_PER_SHARD), int(share / _FEWEST_PER_WORKER / estimate))
    return max(1, round(seconds / estimate), few_chunks)


def cut_into_units(
    spec: LabelSpec, jobs: Iterable[ShardJob], share: float, limits: Iterable[float] = ()
) -> Iterator[tuple[list[ShardJob], Unit | None]]:
    """Yield units of `unit_rows` with the shards that each is for, and count the units per shard.

    The first ones take at most the seconds of ``limits``.
    A unit is either one or several whole shards, which its worker publishes, or a range of missing rows of
    one shard, which is staged, in the chunk that an earlier run has begun if there is one; None if all rows
    of the shard are staged. Suspects are in units of their own, to be solved isolated.
    """
    whole: list[ShardJob] = []
    limits = chain(limits, repeat(math.inf))
    for job in jobs:
        estimate = seconds_per_instance(spec, job.n)
        longest = unit_rows(job.stop - job.start, estimate, share)
        lengths = (max(1, int(min(longest, limit / estimate))) for limit in limits)
        rows = next(lengths)
        if whole and not (
            job.fresh
            and (job.n, job.start) == (whole[-1].n, whole[-1].stop)
            and job.stop - whole[0].start <= rows
        ):
            yield _whole_shards(spec, whole)
            whole = []
        if job.fresh and job.missing <= rows:
            whole.append(job)
            continue
        if not job.gaps:
            yield [job], None
        units = [
            Unit(job.n, a, b, chunk=chunk, isolated=isolated, seconds=(b - a) * estimate)
            for chunk, a, b, isolated in _runs(job, chain([rows], lengths))
        ]
        # Set before the first unit is sent: the shard is merged once as many have come back.
        job.units = len(units)
        yield from (([job], unit) for unit in units)
    if whole:
        yield _whole_shards(spec, whole)


def _whole_shards(spec: LabelSpec, jobs: list[ShardJob]) -> tuple[list[ShardJob], Unit]:
    n, start, stop = jobs[0].n, jobs[0].start, jobs[-1].stop
    seconds = (stop - start) * seconds_per_instance(spec, n)
    return jobs, Unit(n, start, stop, shard_rows=spec.shard_rows, seconds=seconds)


def _runs(job: ShardJob, lengths: Iterator[int]) -> Iterator[tuple[int | None, int, int, bool]]:
    """Yield the gaps of ``job`` in ranges of ``lengths``, or up to the end of a chunk that has begun.

    Each has the first row of that chunk, if there is one, and whether its rows are suspects.
    """
    staged = [(layout.staged_rows(source.path), source.footer.row_stop) for source in job.sources]
    begun = {stop: named for named, stop in staged if named and stop < named[1]}
    for first, stop in job.gaps:
        while first < stop:
            isolated, rows = first in job.suspects, next(lengths)
            chunk, end = begun.get(first, (None, first + rows))
            if isolated:
                chunk, end = None, first + min(rows, _SUSPECTS_PER_UNIT)
            row = min(end, stop)
            if job.suspects:
                others = (i for i in range(first + 1, row) if (i in job.suspects) != isolated)
                row = next(others, row)
            yield chunk if row == end else None, first, row, isolated
            first = row
