"""The page of all settings, from the specs: `python -m tests.unit.docs.settings_page` writes it."""

from __future__ import annotations

import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from mcvrp.flows.config.spec import PipelineSpec
from mcvrp.tasks.support.registry import OneOf

PAGE = Path(__file__).parents[3] / "docs" / "settings.md"
_HEAD = """# Settings

Every field of a preset, and of `--set section.field=value`. The forms of the Prefect UI have the same fields.
This page is made from the specs: `python -m tests.unit.docs.settings_page` writes it, a test compares.
"""
_NAMES = {str: "text", bool: "true or false", int: "whole number", float: "number"}


def page() -> str:
    """Return the page as Markdown, a section for each section of a preset."""
    parts = [_HEAD]
    for name, field in PipelineSpec.model_fields.items():
        parts += _sections(name, field)
    return "\n".join(parts)


def _sections(name: str, field: FieldInfo) -> Iterator[str]:
    spec = spec_of(field.annotation)
    assert spec is not None, f"{name} is no section"
    several = "; a list" if get_origin(field.annotation) is tuple else ""
    yield f"## {name}\n\n{field.description or ''}{several}.\n"
    inner = {key: below for key, below in spec.model_fields.items() if spec_of(below.annotation)}
    rows = [(key, below) for key, below in spec.model_fields.items() if key not in inner]
    yield "| field | takes | default | meaning |\n|---|---|---|---|"
    for key, below in rows:
        cells = (
            f"`{key}`",
            _takes(below.annotation, *below.metadata),
            _default(below),
            below.description or "",
        )
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
    yield ""
    for key, below in inner.items():
        yield from _sections(f"{name}.{key}", below)


def spec_of(kind: Any) -> type[BaseModel] | None:
    """Return the spec that ``kind`` is, is a list of, or may be."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind
    return next((spec for part in get_args(kind) if (spec := spec_of(part))), None)


def _takes(kind: Any, *metadata: object) -> str:
    """Return what a field of the type ``kind`` takes, for people."""
    for choice in metadata:
        if isinstance(choice, OneOf):
            return ", ".join(f"`{name}`" for name in choice.names())
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return ", ".join(f"`{part}`" for part in parts)
    if origin is tuple:
        one = _takes(parts[0])
        several = f"{one}s" if one in _NAMES.values() else one
        return f"list of {several}" if Ellipsis in parts else f"{len(parts)} {several}"
    if origin in (Union, types.UnionType):
        return " or ".join(_takes(part) for part in parts if part is not type(None))
    if parts and hasattr(kind, "__metadata__"):
        return _takes(parts[0], *kind.__metadata__)
    return _NAMES.get(kind, getattr(kind, "__name__", str(kind)).lower())


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None or value == ():
        return "–"
    if isinstance(value, tuple):
        return ", ".join(f"`{part}`" for part in value)
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


if __name__ == "__main__":
    PAGE.write_text(page())
