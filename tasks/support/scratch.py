"""Temporary folders, removed by a later process if their owner is killed."""

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

_FOLDER = re.compile(r"mcvrp-(train|lkh)-.+")
_LOG = re.compile(r"mcvrp-.+\.log")
_YOUNG_SECONDS = 60.0  # a new folder may not be locked yet
_LOG_SECONDS = 7 * 24 * 3600.0  # an error message contains its path


@contextlib.contextmanager
def scratch_folder(kind: Literal["train", "lkh"]) -> Iterator[str]:
    """Hold a new temporary folder; if this process is killed, the next one that holds a folder removes it.

    A lock shows that the owner is alive, even from other containers: the kernel releases it with the process.
    """
    sweep_scratch()
    with tempfile.TemporaryDirectory(prefix=f"mcvrp-{kind}-", ignore_cleanup_errors=True) as folder:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            with contextlib.suppress(OSError):  # NFS refuses it for a folder, also in the sweep
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield folder
        finally:
            os.close(descriptor)


@lru_cache(maxsize=1)  # once a process
def sweep_scratch() -> None:
    """Remove the temporary folders of processes that were killed, and logs older than a week."""
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):  # of another user, or removed meanwhile
                _sweep(entry)


def _sweep(entry: os.DirEntry[str]) -> None:
    status = entry.stat(follow_symlinks=False)
    age = time.time() - status.st_mtime
    if status.st_uid != os.getuid():
        return
    if _LOG.fullmatch(entry.name) and entry.is_file(follow_symlinks=False) and age > _LOG_SECONDS:
        os.unlink(entry.path)
    elif _FOLDER.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False) and age > _YOUNG_SECONDS:
        descriptor = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(entry.path)
        finally:
            os.close(descriptor)
