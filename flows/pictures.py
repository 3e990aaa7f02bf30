"""Pictures within Markdown, as Prefect shows it: small ones become part of the text, large ones links."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import PurePosixPath

from storage.store import Store

_LARGEST = 500_000  # bytes of a picture that is shown inline
_PAGE = 1_000_000  # bytes of all pictures that one artifact shows


def picture(name: str, png: bytes, url: str) -> str:
    """Return the Markdown of a picture whose bytes are ``png`` and whose address in the store is ``url``."""
    if len(png) > _LARGEST:
        return f"[{name}]({url})"
    return f"![{name}](data:image/png;base64,{base64.b64encode(png).decode()})"


def gallery(store: Store, folder: str) -> str:
    """Return the Markdown of the PNG files directly in ``folder`` of ``store``, as many as fit a page."""
    places = map(PurePosixPath, store.list(folder))
    inside = [place for place in places if place.suffix == ".png" and str(place.parent) == folder]
    return album(store, {place.stem: str(place) for place in inside})


def album(store: Store, paths: Mapping[str, str]) -> str:
    """Return the Markdown of the pictures at ``paths`` by their names, of those that are there and fit."""
    shown, left = [], _PAGE
    for name, path in paths.items():
        if not store.exists(path) or store.size(path) > left:
            continue
        png = store.get(path)
        left -= len(png)
        shown.append(picture(name, png, store.url(path)))
    return "\n\n".join(shown)
