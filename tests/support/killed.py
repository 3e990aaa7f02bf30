"""A process that is killed during one of its writes to a store, and the files that it may leave."""

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
    """End of the process: nothing catches this, and no clean-up reaches the store."""


def killed_at_each_write(
    store: Store, folder: Path, work: Callable[[Store], object], *, at_least: int
) -> Iterator[tuple[Store, bool]]:
    """Yield a copy of ``store`` for each write of ``work``, which was killed during it there.

    Writes include those of leases; there have to be ``at_least`` so many. A file has been written in part to
    its temporary name, a folder deleted in part. The second value is True for the last copy alone, which
    was not disturbed.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda _: None)  # no power is cut here, and waiting takes half of the time
        for k in count(1):
            copy = Store(str(folder / str(k)))
            shutil.copytree(store.uri, copy.uri)
            done = False
            with contextlib.suppress(Killed), _killed(k):
                work(copy)
                done = True
            yield copy, done
            if done:
                assert k > at_least
                return
            shutil.rmtree(copy.uri)


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
                _leave_half(Path(self.root, path), name)
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


def _leave_half(target: Path, kind: str) -> None:
    if kind == "delete" and target.is_dir():
        files = sorted(path for path in target.rglob("*") if path.is_file())
        for file in files[: len(files) // 2]:
            file.unlink()
    elif kind.startswith(("write", "swap")):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.with_name(f".{target.name}.killed.tmp").write_bytes(b"half")
