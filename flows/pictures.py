"""Pictures within Markdown, as Prefect shows it: small ones become part of the text, large ones links."""

from __future__ import annotations

import base64

_LARGEST = 300_000  # bytes of a picture that is shown inline


def picture(name: str, png: bytes, url: str) -> str:
    """Return the Markdown of a picture whose bytes are ``png`` and whose address in the store is ``url``."""
    if len(png) > _LARGEST:
        return f"[{name}]({url})"
    return f"![{name}](data:image/png;base64,{base64.b64encode(png).decode()})"
