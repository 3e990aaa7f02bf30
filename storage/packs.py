"""Packs: the contents of many small files in one object, so that a night reads one file instead of thousands.

A pack is derived and hidden (its name begins with a dot): entries count only while their file is unchanged,
whoever wrote the pack last, and a missing or corrupt pack is rebuilt from the files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa

from mcvrp.model.errors import McvrpError
from mcvrp.storage.parallel import in_parallel
from mcvrp.storage.parquet import read_parquet, write_parquet
from mcvrp.storage.store.errors import StoreError
from mcvrp.storage.store.store import Store, StoredFile

NAMED = 1.0  # time of files that are known by their names alone: written once, never replaced
_SCHEMA = pa.schema(
    [("path", pa.string()), ("size", pa.int64()), ("modified", pa.float64()), ("content", pa.binary())]
)


class Pack:
    """The pack at ``path``, read when it is opened."""

    def __init__(self, store: Store, path: str) -> None:
        self._store, self._path, self._entries = store, path, dict[StoredFile, bytes]()
        if (stored := store.stat(path)) is None:  # before its bytes: a newer pack gets the older time
            return
        try:
            columns = read_parquet(store, path, columns=_SCHEMA).to_pydict().values()
        except StoreError:
            raise
        except McvrpError:
            return
        for name, size, modified, content in zip(*columns, strict=True):
            # A file as young as the pack may have been replaced since, see `Dataset`.
            if 0 < modified < stored.modified:
                self._entries[StoredFile(name, size, modified)] = content

    def get(self, file: StoredFile) -> bytes | None:
        """Return the content of ``file``, None if it is not in the pack or has changed."""
        return self._entries.get(file)

    def contents(
        self, files: Iterable[StoredFile], read: Callable[[str], bytes | None], *, save: bool = True
    ) -> dict[str, bytes]:
        """Return the content of each of ``files`` by path; ``read`` is called with the paths of unknown ones.

        Files without content (None) are left out. ``save`` stores the pack if it has changed.
        """
        known = {file: self.get(file) for file in files}
        unknown = [file for file, content in known.items() if content is None]
        known |= zip(unknown, in_parallel(lambda file: read(file.path), unknown), strict=True)
        contents = {file: content for file, content in known.items() if content is not None}
        if save and contents != self._entries:
            self.save(contents)
        return {file.path: content for file, content in contents.items()}

    def save(self, contents: dict[StoredFile, bytes]) -> None:
        """Replace the pack by ``contents``."""
        rows = [(file.path, file.size, file.modified, content) for file, content in contents.items()]
        columns = [list(column) for column in zip(*rows, strict=True)] or [[]] * len(_SCHEMA)
        write_parquet(self._store, self._path, pa.table(columns, schema=_SCHEMA), checksums=True)
