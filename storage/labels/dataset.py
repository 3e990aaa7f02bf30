"""Datasets of labels in the store: files of rows by size, named by their rows, and created once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

import pyarrow as pa

from mcvrp.model.errors import McvrpError, alternatives
from mcvrp.storage import layout
from mcvrp.storage.labels.arrays import LabelArrays, add_contents
from mcvrp.storage.labels.label_files import LabelFile, read_footer, read_table
from mcvrp.storage.parallel import in_parallel
from mcvrp.storage.store.store import Store

OTHER_ROWS = "has other rows than its name says"


class RowFile(NamedTuple):
    """A label file in a listing: rows ``start`` to ``stop`` (excluded) of a size, its path and bytes."""

    start: int
    stop: int
    path: str
    bytes: int


def list_files(store: Store, dataset: str) -> dict[int, list[RowFile]]:
    """Return all files of ``dataset`` by size, first row, and the largest first.

    McvrpError if there is another Parquet file among them, which readers of the folder would take for labels.
    """
    files: dict[int, list[RowFile]] = {}
    for file in store.files(layout.data_dir(dataset)):
        if not file.path.endswith(".parquet"):
            continue
        size, rows = layout.size_of(file.path.rpartition("/")[0]), layout.rows_of(file.path)
        if size is None or rows is None or file.path != layout.label_file(dataset, size, *rows):
            raise McvrpError(f"{store.url(file.path)} has not the name of a label file: move it away")
        files.setdefault(size, []).append(RowFile(*rows, file.path, file.size))
    return {n: sorted(files[n], key=lambda file: (file.start, -file.stop)) for n in sorted(files)}


def without_merged(files: Sequence[RowFile]) -> list[RowFile]:
    """Return ``files`` of one size without those whose rows another one has, because they were merged."""
    kept: list[RowFile] = []
    for file in files:
        if not kept or file.stop > kept[-1].stop:
            kept.append(file)
    return kept


@dataclass(frozen=True)
class Dataset:
    """Dataset ``name`` in ``store``: its files by size when it was opened. Use `open` to make one."""

    store: Store
    name: str
    files: Mapping[int, Sequence[RowFile]] = field(repr=False)

    @classmethod
    def open(cls, store: Store, name: str) -> Dataset:
        """Return the dataset; McvrpError if it has no labels, and as in `list_files`."""
        dataset = cls.listed(store, name)
        if not dataset.files:
            others = alternatives(name, store.folders("labels"))
            raise McvrpError(f"there are no labels of dataset {name!r} in {store.url('labels')}{others}")
        return dataset

    @classmethod
    def listed(cls, store: Store, name: str) -> Dataset:
        """Return the dataset, empty if it has no labels yet; McvrpError as in `list_files`."""
        files = list_files(store, name)
        return cls(store, name, {n: without_merged(files[n]) for n in files})

    def sizes(self) -> list[int]:
        """Return the sizes that have labels, ascending."""
        return list(self.files)

    def leading(self, n: int) -> list[RowFile]:
        """Return the files of size ``n`` before the first row that is missing, or in two of them."""
        files = list[RowFile]()
        for file in self.files.get(n, ()):
            if file.start != (files[-1].stop if files else 0):
                break
            files.append(file)
        return files

    def rows_until_gap(self, n: int) -> int:
        """Return the first row of size ``n`` that is in none of its `leading` files."""
        return next((file.stop for file in reversed(self.leading(n))), 0)

    @cached_property
    def label_files(self) -> Sequence[LabelFile]:
        """All files with their footers, by size and row.

        McvrpError if one is truncated, is not a label file, or has the name of other rows.
        """

        def read(named: tuple[int, RowFile]) -> LabelFile:
            n, file = named
            footer = read_footer(self.store, file.path)
            if (footer.n, footer.row_start, footer.row_stop) != (n, file.start, file.stop):
                raise McvrpError(f"{self.store.url(file.path)} {OTHER_ROWS}: move it away")
            return LabelFile(file.path, footer, file.bytes)

        return list(in_parallel(read, ((n, file) for n, files in self.files.items() for file in files)))

    def fingerprint(self) -> str:
        """Return a hash of city, instances and routes.

        It depends neither on the split into files nor on the solvers and their runtime.
        """
        digest = hashlib.sha256(b"mcvrp-labels-1")
        for n, files in groupby(self.label_files, key=lambda file: file.footer.n):
            footers = [file.footer for file in files]
            cities, rows = ",".join(sorted({f.city_id for f in footers})), sum(f.rows for f in footers)
            digest.update(f"{n} {rows} {cities} {add_contents([f.content for f in footers])}\n".encode())
        return digest.hexdigest()[:32]

    def read_rows(self, n: int, limit: int | None = None) -> Iterator[pa.Table]:
        """Yield the labels of size ``n``, the first ``limit`` or all, one table per file.

        Absent rows are omitted: the row of a label is the number of labels before it. McvrpError if rows are
        missing.
        """
        rows, files, leading = 0, self.files.get(n, ()), self.leading(n)
        required = limit or (1 if len(leading) == len(files) else files[-1].stop)
        for file in leading:
            if limit is not None and rows >= limit:
                break
            table = read_table(self.store, file.path)
            yield table.slice(0, None if limit is None else limit - rows)
            rows += table.num_rows
        if rows < required:
            raise McvrpError(
                f"dataset {self.name!r} in {self.store.url()} has {rows} of the {required} labels of n={n}: "
                "run mcvrp label with its preset"
            )

    def labels(self, n: int, limit: int | None = None) -> LabelArrays:
        """Return the labels of size ``n``, the first ``limit`` or all; McvrpError as in `read_rows`."""
        return LabelArrays.of(pa.concat_tables(list(self.read_rows(n, limit))), n)


def load_labels(store: Store, dataset: str, n: int, limit: int | None = None) -> LabelArrays:
    """Return the labels of size ``n`` in ``dataset``, the first ``limit`` or all.

    Raises McvrpError if labels are missing, a file is corrupt, or ``limit`` is not positive.
    """
    if limit is not None and limit < 1:
        raise McvrpError(f"limit is {limit}: give 1 or more")
    return Dataset.listed(store, dataset).labels(n, limit)
