"""Copy of a store: in parallel, compared byte by byte, resumed by the same command.

A store that is being copied never looks complete: files whose presence means that others are complete are
copied after these, pointers to versions last. A mark in the new store tells an unfinished copy, which may be
continued, from a store in use, which is never changed.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import groupby

from mcvrp.model.errors import McvrpError, shown
from mcvrp.storage import layout
from mcvrp.storage.models.registry import ALIASES
from mcvrp.storage.store.store import Store, StoredFile, StoreError
from mcvrp.storage.training.checkpoints import STATE
from mcvrp.tasks.support.progress import Progress

MARK = ".copy.json"  # of an unfinished copy; hidden, so that no listing contains it
_WORKERS = 8
_LARGE = 2**26  # bytes; files are held in memory, of larger ones a single one
_MB = 10**6
_MARKS = {"city.json", "model.json", STATE, *layout.TRIAL_RECORDS.values()}  # written last, see docs/store.md
_POINTERS = {f"{alias}.json" for alias in ALIASES}


@dataclass(frozen=True)
class CopySummary:
    """Result of a copy: ``files`` with ``bytes`` of the source, of which ``copied`` had to be written.

    ``changed`` files of the source were written or removed meanwhile: the copy is unfinished.
    """

    source: str
    target: str
    files: int
    bytes: int
    copied: int
    changed: int
    seconds: float


def require_apart(source: Store, target: Store) -> None:
    """Raise McvrpError if one of the stores is the other or contains it; nothing is read or written."""
    inner, outer = sorted((_place(source.uri), _place(target.uri)), key=len, reverse=True)
    if inner.startswith(outer):
        relation = "the same store" if inner == outer else "one inside the other"
        raise McvrpError(
            f"{source.url()} and {target.url()} are {relation}: give a folder or prefix elsewhere"
        )


def copy_store(source: Store, target: Store) -> CopySummary:
    """Copy all files of ``source`` except leases and hidden files to ``target``, which may be unfinished.

    Every file is read back and compared. Files that an unfinished copy has already are compared and kept, or
    removed if ``source`` no longer has them. McvrpError, and nothing is written, if ``source`` is empty, is
    an unfinished copy or has files with invalid names, or ``target`` has other content and is not an
    unfinished copy of ``source``; StoreError if a file does not read back as it was written.
    """
    began, files = time.monotonic(), contents(source)
    if (origin := unfinished(source)) is not None:
        raise McvrpError(
            f"{source.url()} is an unfinished copy of {shown(origin, 200)}: run that copy again first"
        )
    if invalid := source.omitted(""):
        raise McvrpError(
            f"{source.url()} has {len(invalid):,} files whose names are not valid in a store, such as "
            f"{shown(invalid[0], 200)}: rename or remove them"
        )
    if not files:
        raise McvrpError(f"{source.url()} is empty, there is nothing to copy: check the address")
    present, resumed = contents(target), _resumed(source, target)
    sizes = {file.path: file.size for file in files}
    common = [file for file in present if sizes.get(file.path) == file.size]
    if not resumed:
        _require_equal(source, target, present, {file.path for file in common})  # at once, before any is read
    same = _each(common, lambda path: source.find(path) == target.find(path), "compare")
    if not resumed:
        _require_equal(source, target, present, same)
    target.put_json(MARK, {"source": source.uri})
    missing = [file for file in files if file.path not in same]
    copied = _each(missing, lambda path: _copied(source, target, path), "copy")
    for path in {file.path for file in present} - sizes.keys():
        target.delete(path)
    changed = {file.path for file in set(files) ^ set(contents(source))}
    if not changed:
        target.delete(MARK)
    seconds, size = time.monotonic() - began, sum(sizes.values())
    return CopySummary(source.uri, target.uri, len(files), size, len(copied), len(changed), seconds)


def _resumed(source: Store, target: Store) -> bool:
    origin = unfinished(target)
    if origin not in (None, source.uri):
        raise McvrpError(
            f"{target.url()} is an unfinished copy of {shown(origin, 200)}, not of {source.url()}: finish "
            "that copy, or give another place"
        )
    return origin is not None


def _require_equal(source: Store, target: Store, present: list[StoredFile], same: set[str]) -> None:
    if other := [file.path for file in present if file.path not in same]:
        raise McvrpError(
            f"{target.url()} has other content than {source.url()} in {len(other):,} of its {len(present):,} "
            f"files, such as {other[0]}: give an empty folder or prefix"
        )


def unfinished(store: Store) -> str | None:
    """Return the address of the source of which ``store`` is an unfinished copy, None if it is not one."""
    if store.find(MARK) is None:
        return None
    mark = store.get_json(MARK)
    return str(mark.get("source")) if isinstance(mark, dict) else "an unknown store"


def contents(store: Store) -> list[StoredFile]:
    """Return the files of ``store`` that are copied: all but leases and hidden files."""
    return [file for file in store.files("") if not file.path.endswith(f"/{layout.LEASE}")]


def rank(path: str) -> int:
    """Return the position of the file at ``path`` in the order of copying: 0 first, 3 last."""
    name = path.rsplit("/", 1)[-1]
    if name in _POINTERS:
        return 3
    receipt = path.startswith("driven/") and name.endswith(".json")
    if name in _MARKS or receipt or (path.startswith("solutions/") and name == "summary.json"):
        return 2
    return int(name.endswith((".json", ".md", ".html")))


def _place(uri: str) -> str:
    place = uri if "://" in uri else os.path.realpath(uri)
    return re.sub("/+", "/", f"{place}/")


def _each(files: Iterable[StoredFile], work: Callable[[str], bool], label: str) -> set[str]:
    """Return the paths of ``files`` for which ``work`` is true, in parallel among files of equal rank."""
    ordered = sorted(files, key=lambda file: (rank(file.path), -file.size))
    done, number, size, total = set[str](), 0, 0, sum(file.size for file in ordered)
    if not ordered:
        return done
    with Progress(label, -(-total // _MB), "MB") as progress:
        for _, group in groupby(ordered, key=lambda file: rank(file.path)):
            for file, positive in _parallel(list(group), work):
                done |= {file.path} if positive else set()
                number, size = number + 1, size + file.size
                progress.update(-(-size // _MB), f"{number:,} of {len(ordered):,} files")
    return done


def _parallel(files: list[StoredFile], work: Callable[[str], bool]) -> Iterator[tuple[StoredFile, bool]]:
    """Yield ``files`` with the results of ``work``; after an error or Ctrl-C no other file is begun."""
    large = threading.Lock()

    def limited(file: StoredFile) -> bool:
        with large if file.size > _LARGE else nullcontext():
            return work(file.path)

    with ThreadPoolExecutor(_WORKERS) as pool:
        futures = {pool.submit(limited, file): file for file in files}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _copied(source: Store, target: Store, path: str) -> bool:
    """Copy the file at ``path``, unless it has been removed meanwhile; return whether it was copied."""
    data = source.find(path)
    if data is None:
        return False
    target.put(path, data)
    if target.find(path) != data:
        raise StoreError(
            f"{target.url(path)} does not read back as it was written: check its disk or server, then run "
            "the same command again"
        )
    return True
