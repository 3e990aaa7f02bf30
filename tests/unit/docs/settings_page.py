"""Generation of docs/settings.md from the specs: `python -m tests.unit.docs.settings_page`."""

from __future__ import annotations

import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from mcvrp.flows.config.spec import PipelineSpec
from mcvrp.tasks.support.registry import OneOf

PAGE = Path(__file__).parents[3] / "docs" / "settings.md"
_HEAD = """# Settings

Every field of a preset, and of `--set section.field=value`. The forms of the Prefect UI have the same fields.
An empty value, as in `--set label.budget=`, restores the default.
Generated from the specs by `python -m tests.unit.docs.settings_page`; a test compares.
"""
_NAMES = {str: "text", bool: "true or false", int: "whole number", float: "number"}

_SHARED = 8  # identical rows from which on a section refers to an earlier one


def page() -> str:
    parts, written = [_HEAD], dict[str, dict[str, str]]()
    for name, field in PipelineSpec.model_fields.items():
        parts += _sections(name, field, written)
    return "\n".join(parts)


def _sections(name: str, field: FieldInfo, written: dict[str, dict[str, str]]) -> Iterator[str]:
    """Yield the section ``name`` and those inside it; ``written`` are the rows of earlier sections."""
    spec = spec_of(field.annotation)
    assert spec is not None, f"{name} is not a section"
    several = "; a list" if get_origin(field.annotation) is tuple else ""
    yield f"## {name}\n\n{field.description or ''}{several}.\n"
    inner = {key: below for key, below in spec.model_fields.items() if spec_of(below.annotation)}
    rows = {key: _row(key, below) for key, below in spec.model_fields.items() if key not in inner}
    for earlier, its_rows in written.items():
        shared = [key for key, row in rows.items() if its_rows.get(key) == row]
        if len(shared) >= _SHARED:
            anchor = earlier.replace(".", "")
            keys = ", ".join(f"`{key}`" for key in shared)
            yield f"[{earlier}](#{anchor}) describes {keys}.\n"
            rows = {key: row for key, row in rows.items() if key not in shared}
    if rows:
        yield "| field | takes | default | meaning |\n|---|---|---|---|"
        yield from rows.values()
        yield ""
    written[name] = rows
    for key, below in inner.items():
        yield from _sections(f"{name}.{key}", below, written)


def _row(key: str, field: FieldInfo) -> str:
    takes = _takes(field.annotation, *field.metadata)
    cells = (f"`{key}`", takes, _default(field), field.description or "")
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def spec_of(kind: Any) -> type[BaseModel] | None:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind
    return next((spec for part in get_args(kind) if (spec := spec_of(part))), None)


def _takes(kind: Any, *metadata: object) -> str:
    for choice in metadata:
        if isinstance(choice, OneOf):
            return ", ".join(f"`{name}`" for name in choice.names())
        if isinstance(choice, BeforeValidator) and choice.json_schema_input_type is not PydanticUndefined:
            return _takes(choice.json_schema_input_type)
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
