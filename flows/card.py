"""The cards of datasets and cities as Prefect shows them: the same Markdown, their pictures inside."""

from __future__ import annotations

import re

from flows.pictures import picture
from model.errors import McvrpError
from storage import layout
from storage.store import Store


def card_markdown(store: Store, dataset: str) -> str:
    """Return the card of ``dataset`` without its title, "" where it has none.

    Its pictures are as `flows.pictures` puts them.
    """
    path = layout.card(dataset)
    if not store.exists(path):
        return ""
    _, _, text = store.get(path).decode(errors="replace").partition("\n")
    folder = layout.label_dir(dataset)

    def inlined(match: re.Match[str]) -> str:
        name, where = match[1], f"{folder}/{match[2]}"
        try:
            png = store.get(where)
        except McvrpError:
            return name
        return picture(name, png, store.url(where))

    text = re.sub(r"!\[([^\]]*)\]\(([^)]+)\)", inlined, text)
    return text.strip()


def city_markdown(store: Store, name: str) -> str:
    """Return the map of the city ``name``, "" where it has none; its figures are shown beside."""
    path = layout.city_map(name)
    if not store.exists(path):
        return ""
    return picture("Map of the addresses", store.get(path), store.url(path))
