"""Parser of the tree of the store in docs/store.md."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

README = Path(__file__).parents[2] / "docs" / "store.md"
_HEADING = "## Files\n"
_LINE = re.compile(r"( {4,})(\S(?:\S| (?! ))*)(?:  +(\S.*))?")
_PLACEHOLDER = re.compile(r"(?!README)[A-Z]+|\*")


def lines() -> Iterator[tuple[str, str]]:
    """Yield the path of each file of the tree and of each folder without files, with what it says of it."""
    section = README.read_text().split(_HEADING)[1].split("\n## ")[0]
    folders: dict[int, str] = {}
    for match in filter(None, map(_LINE.fullmatch, section.splitlines())):
        depth, names, text = len(match[1]), match[2].split(", "), match[3]
        above = folders.get(max((d for d in folders if d < depth), default=-1), "")
        if text is None:
            folders = {d: path for d, path in folders.items() if d < depth} | {depth: above + names[0]}
        else:
            folders = {d: path for d, path in folders.items() if d < depth}
            yield from ((above + name, text) for name in names)


def unknown(paths: Iterable[str]) -> list[str]:
    """Return those of ``paths``, files of a store, that no line of the tree is about."""
    patterns = [_pattern(path) for path, _ in lines()]
    return [path for path in paths if not any(pattern.fullmatch(path) for pattern in patterns)]


def _pattern(path: str) -> re.Pattern[str]:
    parts, place = [], 0
    for match in _PLACEHOLDER.finditer(path):
        parts += [re.escape(path[place : match.start()]), "[^/]+"]
        place = match.end()
    return re.compile("".join(parts) + re.escape(path[place:]) + (".+" if path.endswith("/") else ""))
