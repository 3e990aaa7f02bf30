"""Stable files of a folder that others write to: nothing is taken that is still on its way.

An object of an object store appears when it is whole. A file of a local folder appears with its first
byte: it is taken once it has been left alone for a while. One that looks cut off (its last line has no
end, its Parquet no footer) is left for longer, as an upload may have stalled.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from mcvrp.storage.store.store import Store, StoredFile

logger = logging.getLogger(__name__)

CUT_SECONDS = 600.0  # left alone for so long, what looks cut off is as it was meant, or corrupt
_LINE_ENDS = (b"\n", b"\r", b"\x00")  # the last of UTF-16
_PARQUET_END = b"PAR1"


@dataclass(frozen=True)
class Incomplete:
    """A file that is not taken yet, and why, for people."""

    path: str
    why: str

    def __str__(self) -> str:
        return f"{self.path} {self.why}"


def stable_files(
    store: Store,
    folder: str,
    endings: tuple[str, ...],
    seconds: float,
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[list[str], list[Incomplete]]:
    """Return the files below ``folder`` that are whole, and those that may not be.

    Parameters
    ----------
    endings
        Of the names of the files that are meant, in lower case.
    seconds
        For which a file has to be left alone. Where one has not been, this waits so long and looks
        again; 0 takes every file as it is.
    """
    before = _files(store, folder, endings)
    if seconds <= 0 or "://" in store.uri:
        return [file.path for file in before], []
    now = store.now()
    if young := [file.path for file in before if abs(now - file.modified) < seconds]:
        more = f" and {len(young) - 1} more" if young[1:] else ""
        logger.info("%s%s changed a moment ago: looking again in %g s", young[0], more, seconds)
        sleep(seconds)
    whole, others = list[str](), list[Incomplete]()
    for file in _files(store, folder, endings):
        left_alone = file in before
        if left_alone and (_ends(store, file) or abs(store.now() - file.modified) > CUT_SECONDS):
            whole.append(file.path)
        else:
            cut = f"looks cut off: it is taken once left alone for {CUT_SECONDS / 60:g} minutes"
            others.append(Incomplete(file.path, cut if left_alone else "is being written"))
    return whole, others


def _files(store: Store, folder: str, endings: tuple[str, ...]) -> list[StoredFile]:
    return [file for file in store.files(folder) if file.path.lower().endswith(endings)]


def _ends(store: Store, file: StoredFile) -> bool:
    """Return whether the last bytes of a file are an end."""
    with store.open_input(file.path) as stream:
        stream.seek(max(0, file.size - len(_PARQUET_END)))
        tail = stream.read()
    return bool(tail.endswith(_PARQUET_END if file.path.lower().endswith(".parquet") else _LINE_ENDS))
