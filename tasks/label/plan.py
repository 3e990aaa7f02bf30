"""Plan of a labelling run, from the names of the files that exist: files to be made, and to be merged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from mcvrp.storage.labels.dataset import RowFile, without_merged
from mcvrp.tasks.label.spec import MOST_ROWS, LabelSpec, SpecDocument, seconds_per_instance
from mcvrp.tasks.label.units import Unit

MOST_FILES = 8  # of a size; more are merged


@dataclass(frozen=True)
class Merge(Unit):
    """A file of labels to be made from the files ``parts``, by row."""

    parts: tuple[str, ...] = ()


def gaps(files: Sequence[RowFile], start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of rows, ``start`` to ``stop`` (excluded), that are in none of ``files``."""
    for file in files:
        if start < min(file.start, stop):
            yield start, min(file.start, stop)
        start = max(start, file.stop)
    if start < stop:
        yield start, stop


def missing_units(files: dict[int, list[RowFile]], spec: LabelSpec, document: SpecDocument) -> Iterator[Unit]:
    """Yield the files that have to be made, by size and row: those of a fixed split that do not exist."""
    for n in spec.sizes:
        seconds, rows = seconds_per_instance(spec, n), document.rows_per_file(spec, n)
        for first, last in gaps(files.get(n, []), 0, spec.count):
            bounds = [first, *range((first // rows + 1) * rows, last, rows), last]
            yield from (Unit(n, *each, seconds) for each in pairwise(bounds))


def merges(files: dict[int, list[RowFile]], spec: LabelSpec) -> Iterator[Merge]:
    """Yield the merges of sizes that are complete and have more than `MOST_FILES` files.

    Files are merged until they have `MOST_ROWS` rows. Also yields those that were killed after the new file.
    """
    for n in spec.sizes:
        listed = files.get(n, [])
        current = without_merged(listed)
        for file in current:
            parts = tuple(
                o.path for o in listed if o != file and file.start <= o.start and o.stop <= file.stop
            )
            if parts:
                yield Merge(n, file.start, file.stop, parts=parts)
        if len(current) <= MOST_FILES or any(gaps(current, 0, spec.count)):
            continue
        groups: list[list[RowFile]] = [[]]
        for file in current:
            if sum(part.stop - part.start for part in groups[-1]) >= MOST_ROWS or (
                groups[-1] and (file.start != groups[-1][-1].stop or file.stop - file.start >= MOST_ROWS)
            ):
                groups.append([])
            groups[-1].append(file)
        for group in groups:
            if len(group) > 1:
                yield Merge(n, group[0].start, group[-1].stop, parts=tuple(part.path for part in group))
