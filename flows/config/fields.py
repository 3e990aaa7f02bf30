"""The fields of a preset in words, from the specs (`mcvrp preset fields`)."""

from __future__ import annotations

import re
import types
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from mcvrp.flows.config.spec import PipelineSpec
from mcvrp.flows.config.validation import spec_of
from mcvrp.model.errors import McvrpError, alternatives
from mcvrp.tasks.support.registry import OneOf

_NAMES = {str: "text", bool: "true or false", int: "whole number", float: "number"}


class Described(NamedTuple):
    """A field of a preset, such as `label.count`; ``default`` is "required", or empty where there is none."""

    path: str
    takes: str
    default: str
    meaning: str

    def __str__(self) -> str:
        notes = [self.takes, *([self.default] if self.default else [])]
        return f"{self.path} ({'; '.join(notes)})\n    {self.meaning}"


def described(path: str = "") -> list[Described]:
    """Return the fields of the section or the field ``path``, all without one.

    Raises:
        McvrpError: nothing has this path.
    """
    wanted = re.sub(r"\.\d+", ".N", path)  # phases and datasets are numbered
    start = f"{wanted}." if path else ""
    found = [field for field in _fields("", PipelineSpec) if f"{field.path}.".startswith(start)]
    if not found:
        paths = [field.path for field in _fields("", PipelineSpec)]
        sections = [path.rpartition(".")[0].removesuffix(".N") for path in paths]
        fields = list(dict.fromkeys([*PipelineSpec.model_fields, *sections, *paths]))
        raise McvrpError(f"a preset has no field {path!r}{alternatives(wanted, fields)}")
    return found


def _fields(prefix: str, spec: type[BaseModel]) -> Iterator[Described]:
    for name, field in spec.model_fields.items():
        if inner := spec_of(field.annotation):
            each = ".N" if get_origin(field.annotation) is tuple else ""  # of a list, such as phases
            yield from _fields(f"{prefix}{name}{each}.", inner)
        else:
            takes = _takes(field.annotation, *field.metadata)
            yield Described(f"{prefix}{name}", takes, _default(field), field.description or "")


def _takes(kind: Any, *metadata: object) -> str:
    for choice in metadata:
        if isinstance(choice, OneOf):
            return ", ".join(choice.names())
        if isinstance(choice, BeforeValidator) and choice.json_schema_input_type is not PydanticUndefined:
            return _takes(choice.json_schema_input_type)
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return ", ".join(map(str, parts))
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
        return ""
    if isinstance(value, tuple):
        return f"default {', '.join(map(str, value))}"
    return f"default {str(value).lower() if isinstance(value, bool) else value}"
