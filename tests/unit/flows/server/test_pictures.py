"""Tests of what artifacts show beside figures: pictures within the page, places in the store."""

from __future__ import annotations

import base64
from pathlib import Path

from mcvrp.flows.server.artifacts import gallery, links
from mcvrp.storage.store.store import Store


def test_a_gallery_shows_what_fits_and_only_pictures(tmp_path: Path) -> None:
    """PNG files of the folder itself are inside the Markdown, one that is large is a link."""
    store = Store.open(tmp_path / "store")
    store.put("f/gaps.png", b"small")
    store.put("f/large.png", bytes(600_000))
    store.put("f/huge.png", bytes(2_000_000))
    store.put("f/gaps.svg", b"<svg/>")
    store.put("f/deep/other.png", b"small")
    shown = gallery(store, "f")
    inside = base64.b64encode(b"small").decode()
    assert shown == f"![gaps](data:image/png;base64,{inside})\n\n[large]({store.url('f/large.png')})"
    assert gallery(store, "none") == ""


def test_links_say_where_things_are(tmp_path: Path) -> None:
    """A line a place, with the address as the store has it."""
    store = Store.open(tmp_path / "store")
    assert f"- the model: `{tmp_path}/store/models/m/0001`" in links(store, {"the model": "models/m/0001"})
