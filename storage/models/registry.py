"""Registry of champion and challenger: aliases that point to versions of a model, and their history.

Each move of an alias is a numbered file, created once: the highest counts, and the listing is the history
(who moved it, when and why), which allows a rollback. A version that has been champion is no challenger,
whatever the challenger's moves say: so a promotion is a single file, and cannot be half done.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import socket
import time
from dataclasses import asdict, dataclass, replace
from typing import Literal, get_args

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.documents import as_document
from mcvrp.storage.parallel import in_parallel
from mcvrp.storage.store.store import Store
from mcvrp.storage.versions import ALIAS

Alias = Literal["champion", "challenger"]
ALIASES: tuple[Alias, ...] = get_args(Alias)


@dataclass(frozen=True, kw_only=True)
class Move:
    """One move of an alias: version, time (UTC, ISO 8601), user and reason; ``back``: a rollback."""

    schema_version: int = ALIAS.version
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
    """Version that an alias points to, if any, number of its last move, and its moves.

    Of the challenger's moves only the last is read: their versions ascend.
    """

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


def pointer(store: Store, name: str, alias: str) -> Pointer:
    """Return the pointer ``alias`` of the model ``name``; McvrpError if a move is corrupt."""
    stored = _read(store, name, alias)
    if alias != "challenger" or stored.version is None:
        return stored
    champion = _read(store, name, "champion")
    return replace(stored, version=None) if champion.has_named(stored.version) else stored


def named_before(store: Store, name: str) -> int:
    """Return the highest version that an alias has pointed to, 0 without one; not that of the champion now.

    The champion may be deleted and published again; any other number would name other weights in records.
    """
    champion, challenger = (_read(store, name, alias) for alias in ALIASES)
    moves = (*champion.history, *challenger.history)
    return max((v for move in moves if (v := move.version) and v != champion.version), default=0)


def _read(store: Store, name: str, alias: str) -> Pointer:
    files = store.numbered(layout.model_alias(name, alias))
    paths = [file.path for file in files.values()]
    if alias == "challenger":
        paths = paths[-1:]
    moves = tuple(
        as_document(data, Move, store.url(path), ALIAS, named="move of an alias", hint="remove it")
        for path, data in zip(paths, in_parallel(store.get, paths), strict=True)
    )
    return Pointer(moves[-1].version, max(files), moves) if moves else Pointer(None)


def move_champion(
    store: Store, name: str, version: int, seen: Pointer, why: str = "", *, back: bool = False
) -> None:
    """Make ``version`` the champion, if the champion is still as ``seen``; ``back``: as a rollback.

    McvrpError if there is no such version, it is being removed, or another process has moved the champion.
    """
    if not store.exists(layout.model_card(name, version)):
        raise McvrpError(
            f"model {name!r} has no version {version} that could be its champion: "
            f"run mcvrp models show {name}"
        )
    if not _move(store, name, "champion", version, seen, why, back=back):
        now, before = _version_text(pointer(store, name, "champion").version), _version_text(seen.version)
        raise McvrpError(
            f"the champion of model {name!r} is {now} now, it was {before} when this command started: "
            "another process has changed it; compare again"
        )
    # `mcvrp gc` removes the card of a version and then reads the aliases, here the order is the opposite:
    # at least one of the two sees the other.
    if not store.exists(layout.model_card(name, version)):
        champion = pointer(store, name, "champion")
        if champion.version == version:
            why = f"version {version} is being removed"
            _move(store, name, "champion", seen.version, champion, why, back=True)
        raise McvrpError(
            f"version {version} of model {name!r} was removed by mcvrp gc in the meantime: choose another"
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


def enrol(store: Store, name: str, version: int) -> Alias | None:
    """Make a new version the champion of a model without one, otherwise its challenger; return its alias.

    None if a newer version is the challenger, or the version has been champion before.
    """
    while True:
        champion = pointer(store, name, "champion")
        if champion.version == version:
            return "champion"
        if champion.version is None:
            if _move(store, name, "champion", version, champion, "the first that was published"):
                return "champion"
            continue  # another publisher was faster
        if champion.has_named(version):
            return None  # published again, it does not challenge its successors
        challenger = pointer(store, name, "challenger")
        if challenger.version is not None and challenger.version >= version:
            return "challenger" if challenger.version == version else None
        if _move(store, name, "challenger", version, challenger, "published"):
            return "challenger"


def _move(
    store: Store, name: str, alias: Alias, version: int | None, seen: Pointer, why: str, *, back: bool = False
) -> bool:
    """Move ``alias`` to ``version`` if no other process has moved it since it was ``seen``."""
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    move = Move(version=version, when=when, by=_somebody(), why=why, back=back)
    path = layout.model_move(name, alias, seen.number + 1)
    return store.put_new(path, (json.dumps(asdict(move), indent=2) + "\n").encode())


def _somebody() -> str:
    user = str(os.getuid())
    with contextlib.suppress(KeyError):  # in a container, often
        user = pwd.getpwuid(os.getuid()).pw_name
    return f"{user}@{socket.gethostname()}"


def _version_text(version: int | None) -> str:
    return "no version" if version is None else f"version {version}"
