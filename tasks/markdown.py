"""Tables as Markdown."""

from __future__ import annotations

from collections.abc import Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, right: bool = False) -> str:
    """Return a Markdown table, its columns but the first aligned to the right if asked."""
    rule = ["---"] + ["--:" if right else "---"] * (len(header) - 1)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, rule, *rows))
