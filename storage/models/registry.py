"""Registry of champions and challengers: pointers to versions of a model, moved by one person at a time.

An alias is a small JSON document beside the versions, changed only by compare-and-swap: who
changes it says what it was when they looked. It remembers who moved it when and why, so that
the champion can go back to the one before. A version that has been champion challenges nobody, whatever the
challenger's document says: so a promotion is one write, the champion's, and there is nothing between before
and after. Knows nothing of what a version holds.
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
from mcvrp.storage.store.store import Store
from mcvrp.storage.versions import ALIAS

Alias = Literal["champion", "challenger"]
ALIASES: tuple[Alias, ...] = get_args(Alias)
_REMEMBERED = 500  # moves; older ones are forgotten


@dataclass(frozen=True)
class Move:
    """One move of an alias: to which version, when (UTC, ISO 8601), by whom, why; ``back`` is a rollback."""

    version: int | None
    when: str
    by: str
    why: str
    back: bool = False

    def __str__(self) -> str:
        why = f": {self.why}" if self.why else ""
        return f"{_version_text(self.version)} since {self.when} by {self.by}{why}"


@dataclass(frozen=True, kw_only=True)
class _AliasDocument:
    """Document of an alias, as the store keeps it."""

    schema_version: int = ALIAS.version
    version: int | None
    history: tuple[Move, ...] = ()


@dataclass(frozen=True)
class Pointer:
    """Version that an alias points to, if any, the tag of the document that said so, and its moves."""

    version: int | None
    tag: str | None = None  # None: there was no document
    history: tuple[Move, ...] = ()

    def has_named(self, version: int) -> bool:
        """Return whether it stands for ``version``, or has stood for it before."""
        return any(move.version == version for move in self.history)

    @property
    def before(self) -> tuple[int, ...]:
        """The versions that it stood for before and that no rollback has left, the last one first."""
        stack: list[int] = []
        for move in self.history:
            if move.back and move.version in stack:
                while stack[-1] != move.version:
                    stack.pop()
            elif move.version is not None and (not stack or stack[-1] != move.version):
                stack.append(move.version)
        return tuple(dict.fromkeys(v for v in reversed(stack) if v != self.version))


def pointer(store: Store, name: str, alias: str) -> Pointer:
    """Return where ``alias`` of the model ``name`` points; McvrpError if its document is none."""
    there = _read(store, name, alias)
    if alias != "challenger" or there.version is None:
        return there
    champion = _read(store, name, "champion")
    return replace(there, version=None) if champion.has_named(there.version) else there


def _read(store: Store, name: str, alias: str) -> Pointer:
    path = layout.model_alias(name, alias)
    if store.stat(path) is None:
        return Pointer(None)
    data, tag = store.get_tagged(path)
    said = as_document(
        data, _AliasDocument, store.url(path), ALIAS, named="alias of a model", hint="remove it"
    )
    if said.version is not None and not said.history:  # written before moves were remembered
        before = Move(said.version, "an unknown time", "an earlier version of mcvrp", "")
        return Pointer(said.version, tag, (before,))
    return Pointer(said.version, tag, said.history)


def move_champion(
    store: Store, name: str, version: int, seen: Pointer, why: str = "", *, back: bool = False
) -> None:
    """Make ``version`` the champion where the champion still is as it was ``seen``; it challenges no more.

    Parameters
    ----------
    back
        Whether it is given back to a champion of before.

    Raises
    ------
    McvrpError
        If there is no such version, it is being removed, or somebody else has moved the champion since.
    """
    if not store.exists(layout.model_card(name, version)):
        raise McvrpError(
            f"model {name!r} has no version {version} that could be its champion: "
            f"run mcvrp models show {name}"
        )
    if not _swap(store, name, "champion", version, seen, why, back=back):
        now, before = _version_text(pointer(store, name, "champion").version), _version_text(seen.version)
        raise McvrpError(
            f"the champion of model {name!r} is {now} now, it was {before} when you looked: somebody else "
            "has changed it, look again"
        )
    # Who removes a version marks it first and looks at the aliases then: one of the two sees the other.
    if store.exists(layout.model_removal(name, version)):
        here = pointer(store, name, "champion")
        if here.version == version:
            _swap(
                store, name, "champion", seen.version, here, f"version {version} is being removed", back=True
            )
        raise McvrpError(
            f"version {version} of model {name!r} is being removed by mcvrp gc: choose another, or run "
            "mcvrp gc --delete, which ends what was begun, and train it again"
        )


def roll_back(store: Store, name: str, why: str = "") -> tuple[int, int]:
    """Give the alias champion back to the champion before; return the version that was and that is.

    Rolled back again, it goes one further back; a version that has been removed is passed over.

    Raises
    ------
    McvrpError
        If there was no champion before that is still there, or somebody else has moved it just now.
    """
    seen = pointer(store, name, "champion")
    if seen.version is None:
        raise McvrpError(f"model {name!r} has no champion to go back from: run mcvrp promote {name} VERSION")
    there = [version for version in seen.before if store.exists(layout.model_card(name, version))]
    if not there:
        gone = f": version {', '.join(map(str, seen.before))} is not there any more" if seen.before else ""
        raise McvrpError(
            f"model {name!r} has had no champion before {_version_text(seen.version)} to go back to{gone}: "
            f"promote another version (mcvrp promote {name} VERSION)"
        )
    move_champion(store, name, there[0], seen, why, back=True)
    return seen.version, there[0]


def enrol(store: Store, name: str, version: int) -> Alias | None:
    """Give a new version its alias: champion where there is none, else challenger in place of older ones.

    Returns the alias that the version has in the end, None where a newer one has it, or it has
    been champion before.
    """
    while True:
        champion = pointer(store, name, "champion")
        if champion.version == version:
            return "champion"
        if champion.version is None:
            if _swap(store, name, "champion", version, champion, "the first that was published"):
                return "champion"
            continue  # another publisher was faster: look again
        if champion.has_named(version):
            return None  # it has had its time: published again, it does not challenge who came after it
        challenger = pointer(store, name, "challenger")
        if challenger.version is not None and challenger.version >= version:
            return "challenger" if challenger.version == version else None
        if _swap(store, name, "challenger", version, challenger, "published"):
            return "challenger"


def _swap(
    store: Store, name: str, alias: Alias, version: int | None, seen: Pointer, why: str, *, back: bool = False
) -> bool:
    path = layout.model_alias(name, alias)
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    history = [*seen.history, Move(version, when, _somebody(), why, back)][-_REMEMBERED:]
    document = _AliasDocument(version=version, history=tuple(history))
    data = (json.dumps(asdict(document), indent=2) + "\n").encode()
    return store.put_new(path, data) if seen.tag is None else store.swap(path, data, seen.tag)


def _somebody() -> str:
    """Return who runs this, as far as the machine knows."""
    user = str(os.getuid())
    with contextlib.suppress(KeyError):  # in a container, often
        user = pwd.getpwuid(os.getuid()).pw_name
    return f"{user}@{socket.gethostname()}"


def _version_text(version: int | None) -> str:
    return "no version" if version is None else f"version {version}"
