"""What of a dataset is missing, and how the work is cut into units.

Where rows lie in shards depends on the spec alone; how many units there are may change from run to
run, as what an earlier run has staged is used whatever its cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from model.errors import McvrpError
from model.problem import City
from storage import layout
from storage.labels import LabelFile, read_files, shards
from storage.store import Store
from tasks.label_chunk import Recipe
from tasks.label_spec import LabelSpec, seconds_an_instance

_LONGEST_UNIT = 60.0  # seconds: what a lost worker may cost
_SHORTEST_UNIT = 1.0  # seconds: below, starting the unit would cost more than a few per cent
_UNITS_A_WORKER = 16  # where there is little to do, so that all workers end at about the same time


@dataclass
class ShardJob:
    """A shard that is not there yet, or not whole: what there is of it, and what is missing."""

    n: int
    k: int
    start: int
    stop: int
    sources: list[LabelFile]
    gaps: list[tuple[int, int]]
    units: int = 0
    failed: bool = False

    @property
    def missing(self) -> int:
        """The number of rows to label."""
        return sum(stop - start for start, stop in self.gaps)


def survey(store: Store, spec: LabelSpec, recipe: Recipe, city: City) -> list[ShardJob]:
    """Return the shards to make, having read the footers of all that is there.

    Raises
    ------
    McvrpError
        If a file where a shard or a staged chunk should be is damaged, foreign, or of another dataset.
    """
    staged = [path for path in store.list(layout.staging_dir(spec.dataset)) if layout.staged_rows(path)]
    present = shards(store, spec.dataset)
    chunks = read_files(store, staged)
    for file in (*present, *chunks):
        if (file.footer.city_id, file.footer.spec_hash) != (city.city_id, recipe.spec_hash):
            raise McvrpError(
                f"{store.url(file.path)} belongs to another dataset (city {file.footer.city_id}, spec "
                f"{file.footer.spec_hash}; this one: {city.city_id}, {recipe.spec_hash}): move it away"
            )
    there = {(file.footer.n, layout.shard_number(file.path)): file for file in present}
    jobs = []
    for n in spec.sizes:
        for k, start in enumerate(range(0, spec.count, spec.shard_rows)):
            stop = min(spec.count, start + spec.shard_rows)
            shard = there.get((n, k))
            if shard and not (
                shard.footer.row_start == start and shard.footer.row_stop <= start + spec.shard_rows
            ):
                raise McvrpError(
                    f"{store.url(shard.path)} has rows {shard.footer.row_start} to {shard.footer.row_stop}, "
                    f"this place is for {start} to {start + spec.shard_rows}: move it away"
                )
            if shard and shard.footer.row_stop >= stop:
                continue
            sources = [
                chunk
                for chunk in chunks
                if chunk.footer.n == n and chunk.footer.row_start < stop and chunk.footer.row_stop > start
            ]
            sources += [shard] if shard else []
            jobs.append(ShardJob(n, k, start, stop, sources, list(missing_rows(sources, start, stop))))
    return jobs


def sweep(store: Store, dataset: str) -> None:
    """Remove the staged files whose rows are in a shard: a driver killed while it merged leaves them."""
    staged = store.list(layout.staging_dir(dataset))
    kept = 0
    if staged:
        present = [shard.footer for shard in shards(store, dataset)]
        for file in read_files(store, [path for path in staged if layout.staged_rows(path)]):
            rows = file.footer
            if any(
                s.n == rows.n and s.row_start <= rows.row_start and rows.row_stop <= s.row_stop
                for s in present
            ):
                store.delete(file.path)
            else:
                kept += 1
    if not kept:
        store.delete(layout.staging_dir(dataset))


def missing_rows(files: Sequence[LabelFile], start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield the rows from ``start`` to ``stop`` that are in none of ``files``."""
    for file in sorted(files, key=lambda file: file.footer.row_start):
        if start < min(file.footer.row_start, stop):
            yield start, min(file.footer.row_start, stop)
        start = max(start, file.footer.row_stop)
    if start < stop:
        yield start, stop


def cut_into_units(
    spec: LabelSpec, jobs: Sequence[ShardJob], workers: int
) -> Iterator[tuple[ShardJob, int, int]]:
    """Yield runs of missing rows, shard by shard, each about as long as the others, and count them."""
    total = sum(job.missing * seconds_an_instance(spec, job.n) for job in jobs)
    unit = min(max(total / (workers * _UNITS_A_WORKER), _SHORTEST_UNIT), _LONGEST_UNIT)
    for job in jobs:
        rows = max(1, round(unit / seconds_an_instance(spec, job.n)))
        runs = [
            (first, min(first + rows, stop)) for start, stop in job.gaps for first in range(start, stop, rows)
        ]
        job.units = len(runs)
        for start, stop in runs:
            yield job, start, stop
