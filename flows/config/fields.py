"""The fields of a preset in words, from the schema of its spec (`mcvrp preset fields`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from mcvrp.flows.config.spec import PipelineSpec
from mcvrp.model.errors import McvrpError

_NAMES = {  # by types of JSON
    "string": "text",
    "boolean": "true or false",
    "integer": "whole number",
    "number": "number",
    "object": "dict",
}


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
    """Return the fields of the section or the field ``path``, all without one; McvrpError if none has it."""
    wanted = re.sub(r"\.\d+", ".N", path)  # phases and datasets are numbered
    start = f"{wanted}." if path else ""
    schema = PipelineSpec.model_json_schema()
    every = _fields("", schema, schema["$defs"])
    found = [field for field in every if f"{field.path}.".startswith(start)]
    if not found:
        raise McvrpError(f"a preset has no field {path!r}")
    return found


def _fields(prefix: str, schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Iterator[Described]:
    for name, field in schema["properties"].items():
        parts = [field, *field.get("anyOf", ()), field.get("items", {})]
        if inner := next((part["$ref"] for part in parts if "$ref" in part), ""):
            each = ".N" if "items" in field else ""  # of a list, such as phases
            yield from _fields(f"{prefix}{name}{each}.", definitions[inner.rpartition("/")[2]], definitions)
        else:
            default = "required" if name in schema.get("required", ()) else _default(field.get("default"))
            yield Described(f"{prefix}{name}", _takes(field), default, field.get("description", ""))


def _takes(schema: Mapping[str, Any]) -> str:
    if choices := schema.get("enum") or [schema[key] for key in ("const",) if key in schema]:
        return ", ".join(map(str, choices))
    if "anyOf" in schema:
        return " or ".join(_takes(part) for part in schema["anyOf"] if part.get("type") != "null")
    if schema["type"] == "array":
        parts = schema.get("prefixItems", ())
        one = _takes(parts[0] if parts else schema["items"])
        several = f"{one}s" if one in _NAMES.values() else one
        return f"{len(parts)} {several}" if parts else f"list of {several}"
    return _NAMES.get(schema["type"], schema["type"])


def _default(value: Any) -> str:
    if value is None or value == []:
        return ""
    if isinstance(value, list):
        return f"default {', '.join(map(str, value))}"
    return f"default {str(value).lower() if isinstance(value, bool) else value}"
