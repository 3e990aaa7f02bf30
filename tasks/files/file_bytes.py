"""The bytes of a file that people name, on this machine or in the store: no pipe, and none without end."""

from __future__ import annotations

from pathlib import Path

from mcvrp.model.errors import McvrpError, brief, reason
from mcvrp.storage.store.local import require_file
from mcvrp.storage.store.store import Store

IN_STORE = "store:"  # what the address of a file begins with that lies in the store
MOST_BYTES = 200_000_000  # of a file
_PLACE = 120  # characters of a file's address


class TooLarge(McvrpError):
    """A file has more bytes than any that is meant for here."""


def file_bytes(store: Store, place: str, most: int = MOST_BYTES) -> tuple[str, bytes]:
    """Return the name and the bytes of a file here, or in the store if ``place`` begins with `IN_STORE`.

    Raises
    ------
    McvrpError
        If there is no such file, it has more than ``most`` bytes, or it cannot be read: a pipe or a
        device is no file.
    """
    if place.startswith(IN_STORE):
        path = place.removeprefix(IN_STORE).strip("/")
        if ".." in path.split("/"):
            raise McvrpError(f"{brief(place, _PLACE)} leaves the store: name a file below it")
        return stored_bytes(store, path, most)
    said = brief(place, _PLACE)
    try:
        file = Path(place).expanduser()
        require_file(file, most)
        return file.name, file.read_bytes()
    except FileNotFoundError as error:
        raise McvrpError(
            f"there is no file {said} here: check the name (in the store it is {IN_STORE}PATH)"
        ) from error
    except (OSError, ValueError, RuntimeError) as error:  # the last two of a name that can be none
        raise McvrpError(f"{said} cannot be read ({reason(error)}): give one that can") from error


def stored_bytes(store: Store, path: str, most: int = MOST_BYTES) -> tuple[str, bytes]:
    """Return the name and the bytes of the file at ``path`` of the store; errors as in `file_bytes`."""
    if (size := store.size(path)) > most:
        raise TooLarge(
            f"{brief(store.url(path), _PLACE)} has {size:,} bytes, {most:,} are the most: split it"
        )
    return path.rsplit("/", 1)[-1], store.get(path)
