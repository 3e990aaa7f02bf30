"""Numbered files: FOLDER/000018 and so on, each created once. The highest counts, the others are its history.

This is how several processes write one thing: whoever creates the next number has written it.
"""

from __future__ import annotations

import re

from mcvrp.storage.store.store import Store, StoredFile

_NUMBER = re.compile(r"(\d{6,})(\.[a-z]+)?")


def numbered(store: Store, folder: str) -> dict[int, StoredFile]:
    """Return the numbered files of ``folder`` by their numbers, in ascending order."""
    names = {file.path.removeprefix(f"{folder}/"): file for file in store.files(folder, hidden=True)}
    return {int(match[1]): file for name, file in names.items() if (match := _NUMBER.fullmatch(name))}
