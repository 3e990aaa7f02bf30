"""Pictures within Markdown, as Prefect shows it: small ones become part of the text, large ones links."""

from __future__ import annotations

import base64
from pathlib import PurePosixPath

from storage.store import Store

_LARGEST = 300_000  # bytes of a picture that is shown inline
_PAGE = 1_000_000  # bytes of all pictures that one artifact shows


def picture(name: str, png: bytes, url: str) -> str:
    """Return the Markdown of a picture whose bytes are ``png`` and whose address in the store is ``url``."""
    if len(png) > _LARGEST:
        return f"[{name}]({url})"
    return f"![{name}](data:image/png;base64,{base64.b64encode(png).decode()})"


def gallery(store: Store, folder: str) -> str:
    """Return the Markdown of the PNG files directly in ``folder`` of ``store``, as many as fit a page."""
    shown, left = [], _PAGE
    for path in store.list(folder):
        place = PurePosixPath(path)
        if place.suffix != ".png" or str(place.parent) != folder or store.size(path) > left:
            continue
        png = store.get(path)
        left -= len(png)
        shown.append(picture(place.stem, png, store.url(path)))
    return "\n\n".join(shown)
