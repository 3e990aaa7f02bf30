"""Stable files of a folder that others write to; incomplete uploads are left out.

A file of a local folder is stable once it has not changed for a while; one that looks truncated (no end of
the last line, no Parquet footer) for longer. An object of an object store appears when it is complete.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from mcvrp.model.errors import McvrpError
from mcvrp.storage.store.errors import LeaseLost, StoreUnavailable
from mcvrp.storage.store.store import Store, StoredFile
from mcvrp.tasks.files.cvrplib import INSTANCE

logger = logging.getLogger(__name__)
T = TypeVar("T")

CUT_SECONDS = 600.0  # unchanged for so long, a truncated file is no longer being uploaded
_LINE_ENDS = (b"\n", b"\r", b"\x00")  # the last one for UTF-16
_PARQUET_END = b"PAR1"


class NotYet(McvrpError):
    """A file is to be ingested later, without anybody changing it."""


@dataclass(frozen=True)
class LeftOut:
    """A file that is not ingested; ``why`` completes a sentence that begins with its path.

    One that ``waits`` is going to be, others are refused until they are corrected.
    """

    path: str
    why: str
    waits: bool = False

    def __str__(self) -> str:
        return f"{self.path} {self.why}"


def stable_files(
    store: Store,
    folder: str,
    endings: tuple[str, ...],
    seconds: float,
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[list[StoredFile], list[LeftOut]]:
    """Return the stable files below ``folder`` whose names end with one of ``endings``, and the other ones.

    Instances (.vrp) are neither: they belong to their solutions.
    If one has changed within ``seconds``, this waits for that long and looks again. With 0, all are stable.
    """

    def files() -> list[StoredFile]:
        return [file for file in store.files(folder) if not file.path.lower().endswith(INSTANCE)]

    def named(file: StoredFile) -> bool:
        return file.path.lower().endswith(endings)

    found = files()
    why = f"has a name that ends with none of {', '.join(endings)}"
    before = list(filter(named, found))
    others = [LeftOut(file.path, why) for file in found if not named(file)]
    if seconds <= 0 or "://" in store.uri:
        return before, others
    now = time.time()
    if young := [file.path for file in before if abs(now - file.modified) < seconds]:
        more = f" and {len(young) - 1} more" if young[1:] else ""
        logger.info("%s%s changed a moment ago: looking again in %g s", young[0], more, seconds)
        sleep(seconds)
    stable = list[StoredFile]()
    known = set(before)
    for file in filter(named, files()):
        if file not in known:
            others.append(LeftOut(file.path, "is being written", waits=True))
            continue
        old = abs(time.time() - file.modified) > CUT_SECONDS
        whole = old or attempt(file.path, others, partial(_ends, store, file))
        if whole:
            stable.append(file)
        elif whole is False:
            cut = f"looks truncated: it is ingested once unchanged for {CUT_SECONDS / 60:g} minutes"
            others.append(LeftOut(file.path, cut, waits=True))
    return stable, others


def attempt(path: str, others: list[LeftOut], work: Callable[[], T]) -> T | None:
    """Return the result of ``work`` on the file at ``path``; None if it refuses it, now in ``others``."""
    try:
        return work()
    except (StoreUnavailable, LeaseLost):  # says nothing about the file
        raise
    except NotYet as error:
        others.append(LeftOut(path, f"is not ingested yet: {error}", waits=True))
    except McvrpError as error:
        others.append(LeftOut(path, f"is refused: {error}"))
    return None


def _ends(store: Store, file: StoredFile) -> bool:
    """Return whether a file ends with an end of line or a Parquet footer."""
    with store.open_input(file.path) as stream:
        stream.seek(max(0, file.size - len(_PARQUET_END)))
        tail = stream.read()
    return bool(tail.endswith(_PARQUET_END if file.path.lower().endswith(".parquet") else _LINE_ENDS))
