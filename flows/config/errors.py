"""Validation errors of pydantic as sentences that name the field, its value and the expected value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from mcvrp.model.errors import brief, nearest, shown

FieldPath = tuple[str | int, ...]
_NAME, _VALUE = 80, 60  # characters of a field's name, of its value

# Expected values by the type of pydantic's error; {names} come from the error's context.
_EXPECTED = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dict_type": "a table",
    "finite_number": "a finite number",
    "float_parsing": "a number",
    "float_type": "a number",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "list_type": "a list",
    "literal_error": "{expected}",
    "model_type": "a table",
    "multiple_of": "a multiple of {multiple_of}",
    "string_pattern_mismatch": "a name of letters, digits, '.', '_' and '-', 100 at most",  # of names
    "string_too_short": "text that is not empty",
    "string_type": "text",
    "too_long": "no longer than {max_length}",
    "too_short": "at least {min_length} long",
    "tuple_type": "a list",
}


@dataclass(frozen=True)
class FieldError:
    """An error of a field."""

    path: FieldPath
    text: str


def field_errors(error: ValidationError, model: type[BaseModel], data: Mapping[str, Any]) -> list[FieldError]:
    """Return the errors of ``data``, the input of ``model``, one per field."""
    by_field: dict[FieldPath, list[ErrorDetails]] = {}
    faults = error.errors(include_url=False)
    above = {detail["loc"][:-1] for detail in faults}
    for detail in faults:
        if detail["type"] != "too_short" or detail["loc"] not in above:  # invalid members are not counted
            by_field.setdefault(_field_path(detail["loc"], model), []).append(detail)
    return [FieldError(path, _sentence(path, details, model)) for path, details in by_field.items()]


def dotted(path: FieldPath) -> str:
    """Return ``path`` as in ``--set``: "train.phases.0.lr"."""
    return brief(".".join(map(str, path)), _NAME)


def can_be_unset(path: FieldPath, model: type[BaseModel]) -> bool:
    """Return whether ``model`` has an optional field at ``path`` that is unset by default."""
    above, name = _model_at(path[:-1], model), path[-1]
    field = above.model_fields.get(name) if above and isinstance(name, str) else None
    return field is not None and not field.is_required() and field.default is None


def _sentence(path: FieldPath, details: list[ErrorDetails], model: type[BaseModel]) -> str:
    first = details[0]
    kind = first["type"]
    name = dotted(path) or "the file"
    if kind == "extra_forbidden":
        parent = _model_at(path[:-1], model)
        fields = sorted(parent.model_fields) if parent else []
        section = f"[{dotted(path[:-1])}]" if path[:-1] else "the file"
        return f"there is no {name}; {nearest(str(path[-1]), fields, f'{section} has')}"
    if kind == "missing":
        return f"{name} is missing"
    if kind in ("value_error", "assertion_error"):
        text = str(first.get("ctx", {}).get("error", first["msg"]))
        if not path:
            return text
        # an error of a whole section names its fields itself
        return f"{name}: {text}" if _model_at(path, model) is None else f"[{name}] {text}"
    expected = [_EXPECTED[d["type"]].format(**d.get("ctx", {})) for d in details if d["type"] in _EXPECTED]
    if not expected:
        return f"{name}: {first['msg'][:1].lower()}{first['msg'][1:]}"
    return f"{name} must be {' or '.join(dict.fromkeys(expected))}, not {shown(first['input'], _VALUE)}"


def _field_path(loc: FieldPath, model: type[BaseModel]) -> FieldPath:
    """Return ``loc`` without the members of unions that pydantic inserts between the fields."""
    path: list[str | int] = []
    current: type[BaseModel] | None = model
    for part in loc:
        if isinstance(part, int):
            path.append(part)
        elif current is not None:
            path.append(part)
            current = submodel(part, current)
    return tuple(path)


def _model_at(path: FieldPath, model: type[BaseModel]) -> type[BaseModel] | None:
    current: type[BaseModel] | None = model
    for part in path:
        if isinstance(part, str):
            current = submodel(part, current) if current else None
    return current


def submodel(name: str, model: type[BaseModel]) -> type[BaseModel] | None:
    """Return the model in the type of the field ``name`` of ``model``, None if it has none."""
    field = model.model_fields.get(name)
    return _model_of(field.annotation) if field else None


def _model_of(annotation: Any) -> type[BaseModel] | None:
    """Return the model in the type of a field: the type itself, or a member of a list or union."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for inner in get_args(annotation) if (model := _model_of(inner))), None)
