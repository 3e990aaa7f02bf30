"""Where in the store a stage has left what it made, as Markdown for the end of its artifact."""

from __future__ import annotations

from collections.abc import Mapping

from storage.store import Store


def links(store: Store, places: Mapping[str, str]) -> str:
    """Return a list of ``places``, paths in ``store`` by what they are: a file's path or s3:// address."""
    lines = [f"- {what}: `{store.url(path)}`" for what, path in places.items()]
    return "\n".join(["**In the store**", "", *lines, "", "`mcvrp inspect PATH` shows any of them."])
