"""Registry of the versions of a model: its champion, with the history of its moves, and its challenger.

Each move of the champion is a numbered file, created once: the highest counts, and the listing is the history
(who moved it, when and why), which allows a rollback. The challenger is the latest version, unless it has
been champion.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import socket
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Literal, get_args

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.documents import as_document
from mcvrp.storage.parallel import in_parallel
from mcvrp.storage.store.store import Store

Alias = Literal["champion", "challenger"]
ALIASES: tuple[Alias, ...] = get_args(Alias)


@dataclass(frozen=True, kw_only=True)
class Move:
    """One move of the champion: version, time (UTC, ISO 8601), user and reason; ``back``: a rollback."""

    version: int | None
    when: str
    by: str
    why: str
    back: bool = False

    def __str__(self) -> str:
        why = f": {self.why}" if self.why else ""
        return f"{_version_text(self.version)} since {self.when} by {self.by}{why}"


@dataclass(frozen=True)
class Pointer:
    """Version that an alias points to, if any; of the champion also the number of its last move, and all."""

    version: int | None
    number: int = 0
    history: tuple[Move, ...] = ()

    def has_named(self, version: int) -> bool:
        """Return whether the alias points or has pointed to ``version``."""
        return any(move.version == version for move in self.history)

    @property
    def before(self) -> tuple[int, ...]:
        """Previous versions, the last one first, without those that a rollback has left."""
        stack: list[int] = []
        for move in self.history:
            if move.back and move.version in stack:
                while stack[-1] != move.version:
                    stack.pop()
            elif move.version is not None and (not stack or stack[-1] != move.version):
                stack.append(move.version)
        return tuple(dict.fromkeys(v for v in reversed(stack) if v != self.version))


def pointer(store: Store, name: str, alias: Alias) -> Pointer:
    """Return the pointer ``alias`` of the model ``name``; McvrpError if a move is corrupt."""
    files = store.numbered(layout.champion_dir(name))
    paths = [file.path for file in files.values()]
    moves = tuple(
        as_document(data, Move, store.url(path), named="move of a champion", hint="remove it")
        for path, data in zip(paths, in_parallel(store.get, paths), strict=True)
    )
    champion = Pointer(moves[-1].version, max(files), moves) if moves else Pointer(None)
    if alias == "champion":
        return champion
    latest = next(iter(_descending(store, name)), None)
    return Pointer(None if latest is None or champion.has_named(latest) else latest)


def versions(store: Store, name: str, after: int = 0) -> list[int]:
    """Return the version numbers of ``name`` that are larger than ``after``, ascending."""
    return [*_descending(store, name, after)][::-1]


def _descending(store: Store, name: str, after: int = 0) -> Iterator[int]:
    numbers = sorted((number for number in numbers_of(store, name) if number > after), reverse=True)
    return (number for number in numbers if store.exists(layout.model_card(name, number)))


def numbers_of(store: Store, name: str) -> set[int]:
    """Return the numbers that have a folder, also of unfinished publications."""
    folders = store.folders(layout.models_dir(name))
    return {number for folder in folders if (number := layout.version_of(folder)) is not None}


def move_champion(
    store: Store, name: str, version: int, seen: Pointer, why: str = "", *, back: bool = False
) -> None:
    """Make ``version`` the champion, if the champion is still as ``seen``; ``back``: as a rollback.

    McvrpError if there is no such version, or another process has moved the champion.
    """
    if not store.exists(layout.model_card(name, version)):
        raise McvrpError(
            f"model {name!r} has no version {version} that could be its champion: "
            f"run mcvrp inspect models/{name}"
        )
    if not _move(store, name, version, seen, why, back=back):
        now, before = _version_text(pointer(store, name, "champion").version), _version_text(seen.version)
        raise McvrpError(
            f"the champion of model {name!r} is {now} now, it was {before} when this command started: "
            "another process has changed it; compare again"
        )


def roll_back(store: Store, name: str, why: str = "") -> tuple[int, int]:
    """Make the previous champion the champion again; return the old and the new version.

    Another rollback goes one version further back; removed versions are skipped. McvrpError if no previous
    champion exists, or another process has moved the alias.
    """
    seen = pointer(store, name, "champion")
    if seen.version is None:
        raise McvrpError(f"model {name!r} has no champion to roll back: run mcvrp promote {name} VERSION")
    existing = [version for version in seen.before if store.exists(layout.model_card(name, version))]
    if not existing:
        gone = f": version {', '.join(map(str, seen.before))} was removed" if seen.before else ""
        raise McvrpError(
            f"model {name!r} has no champion before {_version_text(seen.version)} to roll back to{gone}; "
            f"promote another version (mcvrp promote {name} VERSION)"
        )
    move_champion(store, name, existing[0], seen, why, back=True)
    return seen.version, existing[0]


def enrol(store: Store, name: str, version: int) -> None:
    """Make a new version the champion of a model without one."""
    champion = pointer(store, name, "champion")
    if champion.version is None:  # if another publisher is faster, that is the first
        _move(store, name, version, champion, "the first that was published")


def _move(
    store: Store, name: str, version: int | None, seen: Pointer, why: str, *, back: bool = False
) -> bool:
    """Make ``version`` the champion if no other process has moved the champion since it was ``seen``."""
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    move = Move(version=version, when=when, by=_somebody(), why=why, back=back)
    path = layout.champion_move(name, seen.number + 1)
    return store.put_new(path, (json.dumps(asdict(move), indent=2) + "\n").encode())


def _somebody() -> str:
    user = str(os.getuid())
    with contextlib.suppress(KeyError):  # in a container, often
        user = pwd.getpwuid(os.getuid()).pw_name
    return f"{user}@{socket.gethostname()}"


def _version_text(version: int | None) -> str:
    return "no version" if version is None else f"version {version}"
