"""Content of user files, local or in the store, with a limit of size, and errors in it by row.

Pipes and devices are refused.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mcvrp.model.errors import LONGEST, McvrpError, brief, enumerated, reason
from mcvrp.storage.store.store import Store

IN_STORE = "store:"  # prefix of paths in the store
MOST_BYTES = 200_000_000
_PATH = 120  # characters of a path in messages
_NAMED = 20  # errors that the terminal prints
MOST_FAULTS = 100  # a file with more is not read to its end
LARGEST = 1e9  # coordinate: beyond it, float64 does not resolve millimetres in squares
_NAME = 60  # characters of a file name


def require_file(path: Path, most: int | None = None) -> None:
    """Raise OSError if ``path`` is neither file nor folder, or has more than ``most`` bytes."""
    status = path.stat()
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        raise OSError(errno.ENXIO, "it is a pipe or a device, not a file")  # reading it may never end
    if most is not None and status.st_size > most:
        raise OSError(errno.EFBIG, f"it has {status.st_size:,} bytes, the limit is {most:,}")


def is_pasted(place: str) -> bool:
    """Return whether ``place`` is no path, but the lines of a table, as of the form."""
    return "\n" in place.strip()


def local_path(place: str) -> Path:
    """Return the path ``place``, ~ expanded; Path.expanduser fails for names such as ~$monday.xlsx."""
    return Path(os.path.expanduser(place))


def file_bytes(store: Store, place: str, most: int = MOST_BYTES) -> tuple[str, bytes]:
    """Return name and content of a file: local, at an ``s3://`` address, or in the store (`IN_STORE`).

    McvrpError if it does not exist, has more than ``most`` bytes, or is not a readable file.
    """
    if at := _stored(store, place):
        return stored_bytes(*at, most)
    shown = brief(place, _PATH)
    try:
        file = local_path(place)
        require_file(file, most)
        return file.name, file.read_bytes()
    except FileNotFoundError as error:
        raise McvrpError(
            f"there is no file {shown}: check the path (that of a file in the store is {IN_STORE}PATH)"
        ) from error
    except (OSError, ValueError) as error:  # the last one from an invalid path
        raise McvrpError(f"{shown} cannot be read ({reason(error)}): give a readable file") from error


def file_exists(store: Store, place: str) -> bool:
    """Return whether there is a file at ``place``, as in `file_bytes`."""
    at = _stored(store, place)
    return at[0].exists(at[1]) if at else local_path(place).is_file()


def _stored(store: Store, place: str) -> tuple[Store, str] | None:
    """Return the store of ``place`` and the path in it, None for a local file."""
    if place.startswith(IN_STORE):
        return store, place.removeprefix(IN_STORE).strip("/")
    if "://" in place:
        folder, _, name = place.rpartition("/")
        return Store.open(folder, writable=False), name
    return None


def stored_bytes(store: Store, path: str, most: int = MOST_BYTES) -> tuple[str, bytes]:
    """Return name and content of the file at ``path`` of the store; errors as in `file_bytes`."""
    if (size := store.size(path)) > most:
        raise McvrpError(f"{brief(store.url(path), _PATH)} has {size:,} bytes, more than {most:,}: split it")
    return path.rsplit("/", 1)[-1], store.get(path)


@dataclass
class Faults:
    """Errors of the file ``name``: a sentence reports those of the first rows and counts the others.

    The terminal prints a line per error instead.
    """

    name: str
    _errors: list[tuple[int, str]] = field(default_factory=list)  # with rows; 0 is the whole file

    def add(self, text: str, row: int = 0) -> None:
        """Add an error of a row, or of the file; raise the McvrpError of `check` if there are too many."""
        self._errors.append((row, text))
        if len(self._errors) > MOST_FAULTS:
            self.check(at_least=True)

    def at(self, row: int | np.integer[Any], text: str) -> None:
        """Add an error of a row; its number is prepended to ``text``."""
        self.add(f"row {row}: {text}", int(row))

    def check(self, *, at_least: bool = False) -> None:
        """Raise McvrpError if there are errors; ``at_least`` if the file was not read to its end."""
        if self._errors:
            texts = [text for _, text in sorted(self._errors, key=lambda error: error[0])]
            name = brief(self.name, _NAME)
            errors = enumerated(texts, "; ", LONGEST - len(name) - 2, at_least=at_least)
            error = McvrpError(f"{name}: {errors}")
            error.sentences = [f"{name}: {text}" for text in texts[:_NAMED]]
            if (left := len(texts) - _NAMED) > 0:
                error.sentences.append(f"and {'at least ' if at_least else ''}{left} more")
            raise error
