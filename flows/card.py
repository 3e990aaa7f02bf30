"""The card of a dataset as Prefect shows it: the same Markdown, its pictures inside."""

from __future__ import annotations

import base64
import re

from model.errors import McvrpError
from storage import layout
from storage.store import Store

_LARGEST = 300_000  # bytes of a picture that is shown inline


def card_markdown(store: Store, dataset: str) -> str:
    """Return the card of ``dataset`` without its title, "" where it has none.

    Small pictures become part of the text, large ones links to the store.
    """
    path = layout.card(dataset)
    if not store.exists(path):
        return ""
    _, _, text = store.get(path).decode(errors="replace").partition("\n")
    folder = layout.label_dir(dataset)

    def picture(match: re.Match[str]) -> str:
        name, where = match[1], f"{folder}/{match[2]}"
        try:
            png = store.get(where)
        except McvrpError:
            return name
        if len(png) > _LARGEST:
            return f"[{name}]({store.url(where)})"
        return f"![{name}](data:image/png;base64,{base64.b64encode(png).decode()})"

    text = re.sub(r"!\[([^\]]*)\]\(([^)]+)\)", picture, text)
    return f"{text.strip()}\n\nThe dataset: {store.url(folder)}"
