"""What obstore does not do in a local folder: sync a file, remove a folder, tell if it can be written."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path


def require_writable(folder: str) -> None:
    """Raise OSError if nothing can be written in ``folder``; its first file creates it."""
    with tempfile.TemporaryFile(dir=next(each for each in Path(folder, "-").parents if each.exists())):
        pass


def sync(path: str) -> None:
    """Sync the file at ``path`` and its name to the disk, so that a power failure costs neither."""
    for name in (path, os.path.dirname(path)):
        with contextlib.suppress(FileNotFoundError):  # another process has removed it meanwhile
            descriptor = os.open(name, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def remove(path: str) -> None:
    """Remove the file, the link, or the folder with all that is in it at ``path``, if it exists."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # another process was faster
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
