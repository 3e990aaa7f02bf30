"""Stores and output of commands: aligned tables for the terminal, plain JSON."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import humanize
import numpy as np
from pydantic_core import to_jsonable_python

from mcvrp.flows.cli.app import Common
from mcvrp.flows.config import settings
from mcvrp.model.errors import McvrpError, shown
from mcvrp.storage.markdown import unescaped
from mcvrp.storage.store.store import Store

_BAR = re.compile(r"(?<!\\)\|")  # between cells, not escaped within one


def reading(common: Common) -> Store:
    """Return the store of ``common``, for commands that only read it."""
    return Store.open(settings.store_uri(common.store), writable=False)


def asking(common: Common) -> Store:
    """Return the store of ``common`` to look into: a bucket has to respond, a folder need not exist."""
    store = Store.at(settings.store_uri(common.store))
    return reading(common) if "://" in store.uri else store


def writing(common: Common) -> Store:
    """Return the store of ``common``, which has to respond now, but is waited for later."""
    return Store.open(settings.store_uri(common.store))


def named_columns(columns: Sequence[str]) -> dict[str, str]:
    """Return {"id": "Code client"} for ["id=Code client"]; McvrpError if a field has no or two names."""
    names: dict[str, str] = {}
    for text in columns:
        field, equals, name = text.partition("=")
        field = "id" if field == "customer" else field
        if not equals or names.setdefault(field, name) != name:
            raise McvrpError(f'--columns {shown(text)}: give each field one name, such as id="Code client"')
    return names


def aligned(figures: Mapping[str, object]) -> str:
    """Return ``figures`` as lines with aligned values."""
    return table(("", ""), list(figures.items()))


def table(header: Sequence[str], rows: Sequence[Sequence[object]], right: Collection[int] = ()) -> str:
    """Return ``rows`` as aligned columns, below ``header`` unless it is empty.

    ``right`` are the columns aligned to the right: numbers.
    """
    cells = [[str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [cells[0], ["-" * width for width in widths], *cells[1:]] if any(header) else cells[1:]
    forms = [f"{{:{'>' if column in right else '<'}{width}}}" for column, width in enumerate(widths)]
    return "\n".join("  ".join(forms).format(*line).rstrip() for line in lines)


def markdown_text(markdown: str) -> str:
    """Return ``markdown`` for the terminal: aligned tables, nothing bold."""
    text = re.sub(r"\*\*(.+?)\*\*", r"\1", markdown.strip())
    parts = re.split(r"((?:^\|.*\n?){2,})", text, flags=re.MULTILINE)
    return "".join(_aligned_table(part) if k % 2 else unescaped(part) for k, part in enumerate(parts))


def _aligned_table(markdown: str) -> str:
    lines = markdown.splitlines()
    header, rule, *rows = [[unescaped(cell.strip()) for cell in _BAR.split(line)[1:-1]] for line in lines]
    if any(len(row) != len(header) for row in (rule, *rows)):
        return markdown  # not a table that we wrote
    right = [column for column, side in enumerate(rule) if side.endswith(":")]
    return table(header, rows, right) + "\n" * markdown.endswith("\n")


def size_text(count: float) -> str:
    """Return a number of bytes with its unit: "3.2 GB"."""
    return humanize.naturalsize(count).replace("Byte", "byte")


def plain(value: Any) -> Any:
    """Return ``value`` as JSON types: dataclasses as objects, arrays as lists, infinite numbers as null."""
    return to_jsonable_python(value, bytes_mode="base64", inf_nan_mode="null", fallback=_plain)


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)
