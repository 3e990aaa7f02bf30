"""Datasets of labels in the store: shards of rows by size, known from their list, else from their footers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from mcvrp.model.errors import McvrpError, reason
from mcvrp.storage import layout
from mcvrp.storage.labels.columns import Columns
from mcvrp.storage.labels.files import CorruptFile, LabelFile, read_footers, read_table
from mcvrp.storage.labels.schema import Footer, Label, table_labels
from mcvrp.storage.labels.shards import Fingerprint, Shard, ShardList
from mcvrp.storage.store.errors import UNREADABLE
from mcvrp.storage.store.store import Store, StoredFile, StoreError

_KEPT = 2**14  # footers that are kept when the list has them not: there may be very many


@dataclass(frozen=True)
class LabelTable:
    """The labels of one size, N of them, with their costs; what training reads is `storage.labels.flat`.

    Parameters
    ----------
    n
        Customers an instance.
    ids
        Node numbers, ascending, uint16 or uint32 ``(N, n)``.
    demands
        Demand of each, uint8 or uint16 ``(N, n)``.
    capacities
        What a vehicle holds, uint32 ``(N,)``.
    paths
        The canonical sequences 0, route, 0, ..., 0 of all rows, on end, of the type of ``ids``.
    offsets
        Row r is ``paths[offsets[r]:offsets[r + 1]]``, int64 ``(N + 1,)``.
    costs
        Cost of each in the city's unit, float64 ``(N,)``.
    """

    n: int
    ids: NDArray[np.unsignedinteger]
    demands: NDArray[np.unsignedinteger]
    capacities: NDArray[np.uint32]
    paths: NDArray[np.unsignedinteger]
    offsets: NDArray[np.int64]
    costs: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Dataset:
    """The labels called ``name`` in ``store``, as they lie there at each call; use `open` to make one.

    The store is listed anew each time. What a footer says is taken from the list of shards where that
    has the very file (path, size, time), else read, once.
    """

    store: Store
    name: str
    _list: ShardList | None = None
    _read: dict[StoredFile, Footer] = field(default_factory=dict, compare=False)

    @classmethod
    def open(cls, store: Store, name: str, *, trust: bool = True) -> Dataset:
        """Return the dataset, empty where there is none; without ``trust`` every footer is read.

        A list of shards that is lost or corrupt is no error: footers are read in its place.
        """
        try:
            return cls(store, name, ShardList(store, name) if trust else None)
        except StoreError:
            raise
        except McvrpError:
            return cls(store, name)

    def sizes(self) -> list[int]:
        """Return the sizes that have a folder, ascending."""
        found = (layout.size_of(name) for name in self.store.folders(layout.data_dir(self.name)))
        return sorted(n for n in found if n is not None)

    def shards(self, n: int | None = None, *, skip_corrupt: bool = False) -> Iterator[Shard]:
        """Yield the shards of size ``n`` or of all, by size and row.

        Raises
        ------
        McvrpError
            If a file where a shard should be is truncated (``skip_corrupt`` leaves such out), foreign,
            or says that it is another.
        """
        for size in self.sizes() if n is None else [n]:
            files = {}
            for file in self.store.files(layout.size_dir(self.name, size)):
                if file.path.endswith(".parquet"):
                    k = layout.shard_number(file.path)
                    if k is None or file.path != layout.label_shard(self.name, size, k):
                        raise McvrpError(
                            f"{self.store.url(file.path)} is no shard's name for n={size}: move it away"
                        )
                    files[k] = file
            for shard in self.label_files(size, [files[k] for k in sorted(files)], skip_corrupt=skip_corrupt):
                if shard.footer.n != size:
                    raise McvrpError(
                        f"{self.store.url(shard.path)} has labels of n={shard.footer.n}, this place is for "
                        f"n={size}: move it away"
                    )
                yield shard

    def label_files(
        self, n: int, files: Sequence[StoredFile], *, skip_corrupt: bool = False
    ) -> Iterator[Shard]:
        """Yield ``files``, shards or staged chunks of size ``n``, with what their footers say, in order.

        Raises
        ------
        McvrpError
            If a file is not one of labels, or is truncated (``skip_corrupt`` leaves such out).
        """
        listed = self._listed(n)
        known = {file: there for file in files if (there := self._known(file, listed.get(file.path)))}
        footers = read_footers(self.store, (file.path for file in files if file not in known))
        for file in files:
            footer = known.get(file) or next(footers)
            if isinstance(footer, CorruptFile):
                if skip_corrupt:
                    continue
                raise footer
            if file not in known and len(self._read) < _KEPT:
                self._read[file] = footer
            before = listed.get(file.path)
            same = before and (before.bytes, before.footer) == (file.size, footer)
            yield Shard(file.path, footer, file.size, file.modified, before.sha256 if before and same else "")

    def _listed(self, n: int) -> dict[str, Shard]:
        try:
            return {shard.path: shard for shard in self._list.of_size(n)} if self._list else {}
        except McvrpError:  # derived data: whatever is wrong with it, footers say the same
            return {}

    def _known(self, file: StoredFile, listed: Shard | None) -> Footer | None:
        """Return the footer of ``file`` if that is the very one that was read or ``listed``."""
        if not (listed and self._list) or (listed.bytes, listed.modified) != (file.size, file.modified):
            return self._read.get(file)
        # As young as the list, it may have been replaced since at the same time as far as the clock tells:
        # an object store counts whole seconds. A store that tells no time says 0.
        return listed.footer if 0 < file.modified < self._list.written else self._read.get(file)

    def fingerprint(self) -> str:
        """Return the `Fingerprint` of all rows."""
        digest = Fingerprint()
        for n in self.sizes():
            if files := list(self.shards(n)):
                digest.add(n, files)
        return digest.value

    def read_rows(self, n: int, limit: int | None = None) -> Iterator[pa.Table]:
        """Yield the labels of size ``n``, the first ``limit`` of them or all, a table a shard.

        Rows that a shard declares absent are left out: a label's row counts the labels before it.

        Raises
        ------
        McvrpError
            If rows are missing; names them.
        """
        there = stop = 0
        for shard in self.shards(n):
            if (limit is not None and there >= limit) or shard.footer.row_start != stop:
                break
            table = read_table(self.store, shard.path, shard.footer)
            yield table.slice(0, None if limit is None else limit - there)
            there += shard.footer.rows
            stop = shard.footer.row_stop
        wanted = max(1 if limit is None else limit, 1)
        if there < wanted:
            raise McvrpError(
                f"dataset {self.name!r} in {self.store.url()} has {there} of the {wanted} labels of n={n}: "
                "run mcvrp label"
            )

    def labels(self, n: int, limit: int | None = None) -> LabelTable:
        """Return the labels of size ``n``, the first ``limit`` or all; McvrpError as in `read_rows`."""
        columns = Columns.of(pa.concat_tables(list(self.read_rows(n, limit))), n)
        paths, offsets = columns.paths()
        id_type = np.uint16 if columns.ids.max(initial=0) < 2**16 else np.uint32
        demand_type = np.uint8 if columns.demands.max(initial=0) < 2**8 else np.uint16
        return LabelTable(
            n=n,
            ids=columns.ids.astype(id_type),
            demands=columns.demands.astype(demand_type),
            capacities=columns.capacities,
            paths=paths.astype(id_type),
            offsets=offsets,
            costs=columns.costs,
        )

    def label(self, n: int, i: int) -> Label:
        """Return the label of instance (``n``, ``i``).

        Raises
        ------
        McvrpError
            If there is none, or its file is corrupt.
        """
        there = list(self.shards(n))
        for shard in there:
            if (row := shard.footer.row_of(i)) is not None:
                return _read_label(self.store, shard, row)
        rows = sum(shard.footer.rows for shard in there)
        raise McvrpError(
            f"dataset {self.name!r} has no label of instance (n={n}, i={i}): it has {rows:,} labels of "
            f"n={n}, i counts from 0; ask for one of these"
        )


def load_labels(store: Store, dataset: str, n: int, limit: int | None = None) -> LabelTable:
    """Return the labels of size ``n`` in ``dataset``, the first ``limit`` of them or all.

    Raises
    ------
    McvrpError
        As `Dataset.read_rows` does.
    """
    return Dataset.open(store, dataset).labels(n, limit)


def _read_label(store: Store, shard: LabelFile, row: int) -> Label:
    try:
        with store.open_input(shard.path) as stream:
            file = pq.ParquetFile(stream, page_checksum_verification=True)
            for group in range(file.metadata.num_row_groups):
                rows = file.metadata.row_group(group).num_rows
                if row < rows:
                    table = file.read_row_group(group).slice(row, 1)
                    return next(table_labels(table, shard.footer.city_id))
                row -= rows
    except UNREADABLE as error:
        raise CorruptFile(
            f"{store.url(shard.path)} is corrupt ({reason(error)}): run mcvrp verify"
        ) from error
    raise CorruptFile(f"{store.url(shard.path)} has fewer rows than its footer says: run mcvrp verify")
