"""What obstore does not do in a local folder: sync a file to the disk, remove a folder."""

from __future__ import annotations

import contextlib
import os
import shutil


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
