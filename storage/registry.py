"""Which version of a model is champion and which challenger: pointers that one person at a time moves.

An alias is a small JSON document beside the versions, changed only by compare-and-swap: who
changes it says what it was when they looked. Knows nothing of what a version holds.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal, get_args

from model.errors import McvrpError
from storage import layout
from storage.store import Store

Alias = Literal["champion", "challenger"]
ALIASES: tuple[Alias, ...] = get_args(Alias)


@dataclass(frozen=True)
class Pointer:
    """Where an alias points, None to no version, and the tag of the document that said so."""

    version: int | None
    tag: str | None = None  # None: there was no document


def pointer(store: Store, name: str, alias: Alias) -> Pointer:
    """Return where ``alias`` of the model ``name`` points; McvrpError if its document is none."""
    path = layout.model_alias(name, alias)
    if not store.exists(path):
        return Pointer(None)
    data, tag = store.get_tagged(path)
    try:
        version = json.loads(data)["version"]
        if version is not None and not isinstance(version, int):
            raise TypeError(f"version {version!r}")
    except (ValueError, KeyError, TypeError) as error:
        raise McvrpError(f"{store.url(path)} is no alias of a model ({error}): remove it") from error
    return Pointer(version, tag)


def point(store: Store, name: str, alias: Alias, version: int | None, seen: Pointer) -> None:
    """Let ``alias`` point to ``version``, to none if None, where it still is as it was ``seen``.

    Raises
    ------
    McvrpError
        If there is no such version, or somebody else has changed the alias since.
    """
    if version is not None and not store.exists(layout.model_card(name, version)):
        raise McvrpError(f"model {name!r} has no version {version} that could be its {alias}")
    if not _swap(store, name, alias, version, seen):
        now = pointer(store, name, alias).version
        raise McvrpError(
            f"the {alias} of model {name!r} is {_words(now)} now, it was {_words(seen.version)} when you "
            "looked: somebody else has changed it, look again"
        )


def promote(store: Store, name: str, champion: Pointer, challenger: Pointer) -> None:
    """Make the version of ``challenger`` the champion, where both still are as they were seen.

    There is no challenger afterwards, unless a newer one came meanwhile.

    Raises
    ------
    McvrpError
        If there was no challenger, or somebody else has changed an alias since.
    """
    if challenger.version is None:
        raise McvrpError(f"model {name!r} has no challenger to promote: train one with mcvrp train")
    now = pointer(store, name, "challenger").version
    if now != challenger.version:
        raise McvrpError(
            f"the challenger of model {name!r} is {_words(now)} now, it was {_words(challenger.version)} "
            "when you looked: compare again"
        )
    point(store, name, "champion", challenger.version, champion)
    _swap(store, name, "challenger", None, challenger)


def enrol(store: Store, name: str, version: int) -> Alias | None:
    """Give a new version its alias: champion where there is none, else challenger in place of older ones.

    Returns the alias that the version has in the end, None where a newer one has it.
    """
    while True:
        champion = pointer(store, name, "champion")
        if champion.version == version:
            return "champion"
        if champion.version is None:
            if _swap(store, name, "champion", version, champion):
                return "champion"
            continue
        challenger = pointer(store, name, "challenger")
        if challenger.version is not None and challenger.version >= version:
            return "challenger" if challenger.version == version else None
        if _swap(store, name, "challenger", version, challenger):
            return "challenger"


def _swap(store: Store, name: str, alias: Alias, version: int | None, seen: Pointer) -> bool:
    path = layout.model_alias(name, alias)
    data = (json.dumps({"version": version}) + "\n").encode()
    return store.put_new(path, data) if seen.tag is None else store.swap(path, data, seen.tag)


def _words(version: int | None) -> str:
    return "no version" if version is None else f"version {version}"
