"""Errors of fields in words: pydantic's as one sentence that names the field and says what it must be."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from mcvrp.model.errors import LONGEST, brief, enumerated, shown

Path = tuple[str | int, ...]
_NAME, _VALUE, _KNOWN = 80, 60, 150  # characters of a field's name, of its value, of what there is instead
_BEFORE = 60  # characters that a sentence may have in front: the name of a file

# What a value must be, by the type of pydantic's error; {names} come from the error's context.
_MUST_BE = {
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
    """One thing that is wrong with one field."""

    path: Path
    text: str


def field_errors(error: ValidationError, model: type[BaseModel], data: Mapping[str, Any]) -> list[FieldError]:
    """Return what ``error`` says about ``data``, which was to become a ``model``; one entry a field."""
    found: dict[Path, list[ErrorDetails]] = {}
    for detail in error.errors(include_url=False):
        found.setdefault(_path(detail["loc"], model), []).append(detail)
    return [FieldError(path, _sentence(path, details, model)) for path, details in found.items()]


def first_of(errors: Sequence[FieldError]) -> str:
    """Return the first of ``errors`` in one sentence, and how many more there are."""
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return brief(errors[0].text, LONGEST - _BEFORE - len(more)) + more


def dotted(path: Path) -> str:
    """Return ``path`` as a person writes it: "train.phases.0.lr"."""
    return brief(".".join(map(str, path)), _NAME)


def nearest(word: str, known: Sequence[str], what: str) -> str:
    """Return a hint at the name that ``word`` was meant to be: the nearest one, else all."""
    close = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {close[0]}?" if close else f"{what}: {enumerated(known, ', ', _KNOWN)}"


def _sentence(path: Path, details: list[ErrorDetails], model: type[BaseModel]) -> str:
    first = details[0]
    kind = first["type"]
    name = dotted(path) or "the file"
    if kind == "extra_forbidden":
        parent = _model_at(path[:-1], model)
        known = sorted(parent.model_fields) if parent else []
        where = f"[{dotted(path[:-1])}]" if path[:-1] else "the file"
        return f"there is no {name}; {nearest(str(path[-1]), known, f'{where} knows')}"
    if kind == "missing":
        return f"{name} is missing"
    if kind in ("value_error", "assertion_error"):
        text = str(first.get("ctx", {}).get("error", first["msg"]))
        # a whole section that does not fit together says itself which fields it means
        inside = not path or _model_at(path, model) is not None
        return f"[{name}] {text}" if inside and path else f"{name}: {text}" if path else text
    must_be = [
        _MUST_BE[d["type"]].format(**d.get("ctx", {})) if d["type"] in _MUST_BE else None for d in details
    ]
    known_words = list(dict.fromkeys(word for word in must_be if word))
    if not known_words:
        return f"{name}: {first['msg'][:1].lower()}{first['msg'][1:]}"
    return f"{name} must be {' or '.join(known_words)}, not {shown(first['input'], _VALUE)}"


def _path(loc: Path, model: type[BaseModel]) -> Path:
    """Return ``loc`` without the members of unions that pydantic puts between the fields."""
    path: list[str | int] = []
    here: type[BaseModel] | None = model
    for place, part in enumerate(loc):
        if isinstance(part, int):
            path.append(part)
        elif here is not None:
            path.append(part)
            field = here.model_fields.get(part)
            here = _model_of(field.annotation) if field else None
        elif place == 0:
            path.append(part)
    return tuple(path)


def _model_at(path: Path, model: type[BaseModel]) -> type[BaseModel] | None:
    here: type[BaseModel] | None = model
    for part in path:
        if isinstance(part, int):
            continue
        field = here.model_fields.get(part) if here else None
        here = _model_of(field.annotation) if field else None
    return here


def _model_of(annotation: Any) -> type[BaseModel] | None:
    """Return the model that a field of type ``annotation`` holds: itself, or in a list or a union."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for inner in get_args(annotation) if (found := _model_of(inner))), None)
