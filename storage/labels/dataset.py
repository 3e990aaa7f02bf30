"""Datasets of labels in the store: shards of rows by size, read from their list or from their footers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from mcvrp.model.errors import McvrpError, alternatives, enumerated
from mcvrp.storage import layout
from mcvrp.storage.labels.arrays import LabelArrays
from mcvrp.storage.labels.label_files import CorruptFile, parse_footer, read_footer, read_table
from mcvrp.storage.labels.schema import Label, table_labels
from mcvrp.storage.labels.shards import Fingerprint, Shard, ShardList
from mcvrp.storage.labels.statistics import ShardFigures
from mcvrp.storage.store.parallel import in_parallel
from mcvrp.storage.store.store import Store, StoredFile, StoreError

_MOST_FIGURES = 2**13  # shards whose figures are kept in memory, 10 kB each; those of others are read
_MOST_FOOTERS = 2**14  # kept in memory of those that are not in the list: there may be very many


@dataclass(frozen=True)
class Dataset:
    """Dataset ``name`` in ``store`` as it is at each call; use `open` to make one.

    Every call lists the store, unless it is `listed`. A footer is taken from the receipt of its writer in
    this run, or from the list of shards if that has the same file (path, size, time); otherwise it is read,
    once. With ``checksums`` a file whose checksum neither of them has is read as a whole.
    """

    store: Store
    name: str
    checksums: bool = False
    _list: ShardList | None = None
    _files: Mapping[int, Sequence[StoredFile]] | None = None  # by size
    _read: dict[StoredFile, Shard] = field(default_factory=dict, compare=False)
    _receipts: dict[str, Shard] = field(default_factory=dict, compare=False)

    @classmethod
    def open(cls, store: Store, name: str, *, trust: bool = True) -> Dataset:
        """Return the dataset, empty if it does not exist; without ``trust`` every footer is read.

        A missing or corrupt list of shards is not an error: footers are read instead.
        """
        try:
            return cls(store, name, _list=ShardList(store, name) if trust else None)
        except StoreError:
            raise
        except McvrpError:
            return cls(store, name)

    def listed(self) -> Dataset:
        """Return the dataset with the files that it has now: one listing instead of one per size."""
        return replace(self, _files=files_by_size(self.store, layout.data_dir(self.name)))

    def note(self, shards: Iterable[Shard]) -> None:
        """Remember the receipts of ``shards`` that a worker has just written: they need not be read."""
        for shard in shards:
            full = len(self._receipts) >= _MOST_FIGURES
            self._receipts[shard.path] = replace(shard, figures=None) if full else shard

    def figures(self) -> dict[str, ShardFigures]:
        """Return the figures of the shards that workers have just written, by checksum."""
        return {shard.sha256: shard.figures for shard in self._receipts.values() if shard.figures}

    def sizes(self) -> list[int]:
        """Return the sizes that have a folder, ascending."""
        if self._files is not None:
            return sorted(self._files)
        sizes = (layout.size_of(name) for name in self.store.folders(layout.data_dir(self.name)))
        return sorted(n for n in sizes if n is not None)

    def shards(self, n: int | None = None, *, skip_corrupt: bool = False) -> Iterator[Shard]:
        """Yield the shards of size ``n`` or of all sizes, by size and row.

        McvrpError if a file at the path of a shard is truncated (unless ``skip_corrupt``), is not a label
        file, or is another shard.
        """
        for size in self.sizes() if n is None else [n]:
            files, listed = {}, self._files
            folder = layout.size_dir(self.name, size)
            for file in self.store.files(folder) if listed is None else listed.get(size, ()):
                if file.path.endswith(".parquet"):
                    k = layout.shard_number(file.path)
                    if k is None or file.path != layout.label_shard(self.name, size, k):
                        raise McvrpError(
                            f"{self.store.url(file.path)} is not the path of a shard of n={size}: move it"
                        )
                    files[k] = file
            for shard in self.label_files(size, [files[k] for k in sorted(files)], skip_corrupt=skip_corrupt):
                if shard.footer.n != size:
                    raise McvrpError(
                        f"{self.store.url(shard.path)} has labels of n={shard.footer.n}, expected n={size}: "
                        "move it away"
                    )
                yield shard

    def label_files(
        self, n: int, files: Sequence[StoredFile], *, skip_corrupt: bool = False
    ) -> Iterator[Shard]:
        """Yield ``files``, shards or staged chunks of size ``n``, with their footers, in order.

        Raises McvrpError if a file is not a label file, or is truncated (unless ``skip_corrupt``).
        """
        listed = self._listed(n)
        known = {file: old for file in files if (old := self._known(file, listed.get(file.path)))}
        unknown = (file for file in files if file not in known)
        read = in_parallel(lambda file: self._read_shard(file, listed.get(file.path)), unknown)
        for file in files:
            if file in known:
                yield known[file]
            elif not isinstance(shard := next(read), CorruptFile):
                if len(self._read) < _MOST_FOOTERS:
                    self._read[file] = shard
                yield shard
            elif not skip_corrupt:
                raise shard

    def _listed(self, n: int) -> dict[str, Shard]:
        try:
            return {shard.path: shard for shard in self._list.of_size(n)} if self._list else {}
        except McvrpError:  # the list is derived data: the footers hold the same
            return {}

    def _known(self, file: StoredFile, listed: Shard | None) -> Shard | None:
        """Return ``file`` if this very file was written in this run, was read before, or is ``listed``."""
        shard = self._receipts.get(file.path)
        if shard is None or shard.bytes != file.size:
            shard = self._read.get(file)
            # A file as young as the list may have been replaced after the list was written, within the
            # resolution of the clock: object stores count whole seconds. A store without times reports 0.
            if listed and self._list and 0 < file.modified < self._list.written:
                same = (listed.bytes, listed.modified) == (file.size, file.modified)
                shard = listed if same else shard
        if shard is None or (self.checksums and not shard.sha256):
            return None
        return replace(shard, modified=file.modified)

    def _read_shard(self, file: StoredFile, listed: Shard | None) -> Shard | CorruptFile:
        """Return ``file`` with its footer; with its checksum, too, if that is required, or ``listed``."""
        try:
            sha256, same_size = "", listed is not None and listed.bytes == file.size
            if same_size or not self.checksums:
                footer = read_footer(self.store, file.path)
                sha256 = listed.sha256 if listed and same_size and listed.footer == footer else ""
            if self.checksums and not sha256:
                data = self.store.get(file.path)
                footer = parse_footer(data, self.store.url(file.path))
                sha256 = hashlib.sha256(data).hexdigest()
            return Shard(file.path, footer, file.size, file.modified, sha256)
        except CorruptFile as error:
            return error

    def fingerprint(self) -> str:
        digest, dataset = Fingerprint(), self.listed()
        for n in dataset.sizes():
            if files := list(dataset.shards(n)):
                digest.add(n, files)
        return digest.value

    def read_rows(self, n: int, limit: int | None = None) -> Iterator[pa.Table]:
        """Yield the labels of size ``n``, the first ``limit`` or all, one table per shard.

        Absent rows of a shard are omitted: the row of a label is the number of labels before it. McvrpError
        if rows are missing; the message counts them, or lists the sizes that exist.
        """
        rows = stop = 0
        required = max(1 if limit is None else limit, 1)
        for shard in self.shards(n):
            if limit is not None and rows >= limit:
                break
            if shard.footer.row_start != stop:  # the rows before it are missing
                required = limit or shard.footer.row_stop
                break
            table = read_table(self.store, shard.path, shard.footer)
            yield table.slice(0, None if limit is None else limit - rows)
            rows += shard.footer.rows
            stop = shard.footer.row_stop
        if rows < required:
            if n not in (sizes := self.sizes()):
                raise McvrpError(self._other_sizes(n, sizes))
            raise McvrpError(
                f"dataset {self.name!r} in {self.store.url()} has {rows} of the {required} labels of n={n}: "
                "run mcvrp label"
            )

    def _other_sizes(self, n: int, sizes: Sequence[int]) -> str:
        where = f"in {self.store.url()}"
        if sizes:
            gapless = sizes == list(range(sizes[0], sizes[-1] + 1)) and len(sizes) > 2
            text = f"{sizes[0]} to {sizes[-1]}" if gapless else enumerated(list(map(str, sizes)), ", ", 100)
            return f"dataset {self.name!r} {where} has no labels of n={n}: choose one of its sizes, {text}"
        others = alternatives(self.name, [name for name in self.store.folders("labels") if name != self.name])
        return f"dataset {self.name!r} {where} has no labels{others}: run mcvrp label"

    def labels(self, n: int, limit: int | None = None) -> LabelArrays:
        """Return the labels of size ``n``, the first ``limit`` or all; McvrpError as in `read_rows`."""
        return LabelArrays.of(pa.concat_tables(list(self.read_rows(n, limit))), n)

    def label(self, n: int, i: int) -> Label:
        """Return the label of instance (``n``, ``i``); McvrpError if it does not exist, or is corrupt."""
        shards = list(self.shards(n))
        for shard in shards:
            if (row := shard.footer.row_of(i)) is not None:
                table = read_table(self.store, shard.path, shard.footer).slice(row, 1)
                return next(table_labels(table, shard.footer.city_id))
        rows = sum(shard.footer.rows for shard in shards)
        raise McvrpError(
            f"dataset {self.name!r} has no label of instance (n={n}, i={i}): it has {rows:,} labels of "
            f"n={n}, i counts from 0; choose one of these"
        )


def files_by_size(store: Store, folder: str) -> dict[int, list[StoredFile]]:
    """Return the files below ``folder``, of shards or staged chunks, by the size that its folders name."""
    files: dict[int, list[StoredFile]] = {}
    for file in store.files(folder):
        if (n := layout.size_of(file.path.removeprefix(f"{folder}/").partition("/")[0])) is not None:
            files.setdefault(n, []).append(file)
    return files


def load_labels(store: Store, dataset: str, n: int, limit: int | None = None) -> LabelArrays:
    """Return the labels of size ``n`` in ``dataset``, the first ``limit`` or all.

    Raises McvrpError if labels are missing, or a file is corrupt.
    """
    return Dataset.open(store, dataset).labels(n, limit)
