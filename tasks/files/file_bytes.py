"""Content of user files, local or in the store, with a limit of size; no pipes or devices."""

from __future__ import annotations

from pathlib import Path

from mcvrp.model.errors import McvrpError, brief, reason
from mcvrp.storage.store.local import require_file
from mcvrp.storage.store.store import Store

IN_STORE = "store:"  # prefix of paths in the store
MOST_BYTES = 200_000_000
_PATH = 120  # characters of a path in messages


class TooLarge(McvrpError):
    """A file exceeds the limit of size."""


def file_bytes(store: Store, place: str, most: int = MOST_BYTES) -> tuple[str, bytes]:
    """Return name and content of a local file, or of one in the store if ``place`` begins with `IN_STORE`.

    McvrpError if it does not exist, has more than ``most`` bytes, or is not a readable file.
    """
    if place.startswith(IN_STORE):
        path = place.removeprefix(IN_STORE).strip("/")
        if ".." in path.split("/"):
            raise McvrpError(f"{brief(place, _PATH)} leads out of the store: name a file in the store")
        return stored_bytes(store, path, most)
    shown = brief(place, _PATH)
    try:
        file = Path(place).expanduser()
        require_file(file, most)
        return file.name, file.read_bytes()
    except FileNotFoundError as error:
        raise McvrpError(
            f"there is no file {shown}: check the path (that of a file in the store is {IN_STORE}PATH)"
        ) from error
    except (OSError, ValueError, RuntimeError) as error:  # the last two from an invalid path
        raise McvrpError(f"{shown} cannot be read ({reason(error)}): give a readable file") from error


def stored_bytes(store: Store, path: str, most: int = MOST_BYTES) -> tuple[str, bytes]:
    """Return name and content of the file at ``path`` of the store; errors as in `file_bytes`."""
    if (size := store.size(path)) > most:
        raise TooLarge(f"{brief(store.url(path), _PATH)} has {size:,} bytes, more than {most:,}: split it")
    return path.rsplit("/", 1)[-1], store.get(path)
