"""Temporary folders that outlive nobody: what a killed process leaves is removed by a later one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal

_OURS = re.compile(r"mcvrp-(train|ray|lkh)-.+")
_LOG = re.compile(r"mcvrp-.+\.log")
_YOUNG_SECONDS = 60.0  # a folder's maker may not have locked it yet
_LOG_SECONDS = 7 * 24 * 3600.0  # its path was named to somebody


@contextlib.contextmanager
def scratch_folder(kind: Literal["train", "ray", "lkh"]) -> Iterator[str]:
    """Hold a new temporary folder; if this process is killed, the next that holds one removes it.

    A lock says that its maker lives: the kernel lets go of it with the process, in whatever container.
    """
    sweep_scratch()
    with tempfile.TemporaryDirectory(prefix=f"mcvrp-{kind}-", ignore_cleanup_errors=True) as folder:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield folder
        finally:
            os.close(descriptor)


@lru_cache(maxsize=1)  # once a process
def sweep_scratch() -> None:
    """Remove the temporary folders of processes that were killed, and logs older than a week."""
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):  # somebody else's, or just removed
                _sweep(entry)


def _sweep(entry: os.DirEntry[str]) -> None:
    found = entry.stat(follow_symlinks=False)
    age = time.time() - found.st_mtime
    if found.st_uid != os.getuid():
        return
    if _LOG.fullmatch(entry.name) and entry.is_file(follow_symlinks=False) and age > _LOG_SECONDS:
        os.unlink(entry.path)
    elif _OURS.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False) and age > _YOUNG_SECONDS:
        descriptor = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(entry.path)
        finally:
            os.close(descriptor)
