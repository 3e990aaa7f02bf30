"""A process that is killed amid one of its writes to a store, and everything that may be left then."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from mcvrp.storage.store.lease import Holder
from mcvrp.storage.store.local import LocalFiles
from mcvrp.storage.store.store import Store


class Killed(BaseException):
    """The process is no more: nothing catches this, and what runs on the way out reaches no store."""


def killed_at_each_write(
    store: Store, folder: Path, work: Callable[[Store], object], *, at_least: int
) -> Iterator[tuple[Store, bool]]:
    """Yield a copy of ``store`` for each write of ``work``, which was killed amid it there.

    Writes are counted as they come, those of leases too; there have to be ``at_least`` so many. Amid a file,
    its beginning lies aside; amid the deletion of a folder, some of its files are gone. After a write is
    before the next: of the last copy alone, in which ``work`` was not disturbed, the second value is True.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda _: None)  # no power is cut here, and waiting takes half of the time
        for k in count(1):
            copy = Store(str(folder / str(k)))
            shutil.copytree(store.uri, copy.uri)
            with _killed(k):
                done = _survives(lambda there=copy: work(there))  # type: ignore[misc]
            yield copy, done
            if done:
                assert k > at_least
                return
            shutil.rmtree(copy.uri)


def _survives(work: Callable[[], object]) -> bool:
    try:
        work()
    except Killed:
        return False
    return True


@contextlib.contextmanager
def _killed(k: int) -> Iterator[None]:
    left, ask, here = k, Store._ask, Holder.here

    def alive(self: Store, *arguments: Any, **named: Any) -> Any:
        if left <= 0:
            raise Killed
        return ask(self, *arguments, **named)

    def counted(name: str) -> Callable[..., Any]:
        really = getattr(LocalFiles, name)

        def write(self: LocalFiles, path: str, *arguments: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                _amid(Path(self.root, path), name)
                raise Killed
            return really(self, path, *arguments)

        return write

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Store, "_ask", alive)
        # leases identify their holder by its start time: those of a killed process have no holder
        patch.setattr(Holder, "here", lambda: replace(here(), started="killed"))
        for name in ("write", "write_new", "swap", "move", "delete"):
            patch.setattr(LocalFiles, name, counted(name))
        yield


def _amid(target: Path, kind: str) -> None:
    """Leave what the write ``kind`` of ``target`` would have left half-way."""
    if kind == "delete" and target.is_dir():
        files = sorted(path for path in target.rglob("*") if path.is_file())
        for file in files[: len(files) // 2]:
            file.unlink()
    elif kind.startswith(("write", "swap")):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.with_name(f".{target.name}.killed.tmp").write_bytes(b"half")
