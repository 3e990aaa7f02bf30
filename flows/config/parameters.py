"""Validation of specs and flow parameters, with the same messages for forms, the API and `--set`.

Errors of pydantic become sentences that name the field, its value and the expected value.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic_core import ErrorDetails

from mcvrp.model.errors import InvalidFields, brief, nearest, shown as quoted
from mcvrp.storage.layout import NAME_PATTERN
from mcvrp.tasks.city.spec import AddressFile
from mcvrp.tasks.files.file_bytes import IN_STORE

Model = TypeVar("Model", bound=BaseModel)
FieldPath = tuple[str | int, ...]
_NAME, _VALUE = 80, 60  # characters of a field's name, of its value


def shown(title: str, description: str) -> Any:
    """Return the title and description of a parameter in a form; Prefect reads them only from here."""
    return Field(json_schema_extra={"title": title, "description": description})


CityName = Annotated[
    str,
    Field(pattern=NAME_PATTERN),
    shown("City", "Name of the city in the store; the flow `city` creates it"),
]
ModelName = Annotated[
    str | None, shown("Model", "Name of the model in the store; type None if no method needs one")
]
StoreUri = Annotated[
    str | None,
    shown("Store", "Empty: the store that the UI was started with"),
]


def of_form(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``values``, the parameters of a form, whose relative paths are files in the store."""
    named = {name: _with_files_in_store(value) for name, value in values.items()}
    for name in ("orders", "start", "keep"):
        if isinstance(file := named.get(name), str):
            named[name] = _in_store(file)
    return named


def _in_store(file: str) -> str:
    elsewhere = "://" in file or PurePath(file).is_absolute()
    return file if elsewhere or file.startswith(IN_STORE) else IN_STORE + file


def _with_files_in_store(value: Any) -> Any:
    """Return ``value`` with `_in_store` applied to the files of each `AddressFile` in it."""
    if isinstance(value, AddressFile):
        files = {field: file for field in ("file", "matrix", "history") if (file := getattr(value, field))}
        return value.model_copy(update={field: _in_store(file) for field, file in files.items()})
    if not isinstance(value, BaseModel):
        return value
    changed = {
        field: new
        for field in type(value).model_fields
        if (new := _with_files_in_store(old := getattr(value, field))) is not old
    }
    return value.model_copy(update=changed) if changed else value


def parameters_of(body: Callable[..., Any]) -> type[BaseModel]:
    """Return a model with a field for each parameter of ``body``."""
    hints = get_type_hints(body, include_extras=True)
    fields: dict[str, Any] = {
        name: (hints[name], ... if parameter.default is parameter.empty else parameter.default)
        for name, parameter in inspect.signature(body).parameters.items()
    }
    config = ConfigDict(extra="forbid", protected_namespaces=())
    return create_model(body.__name__, __config__=config, **fields)


def parsed(model: type[BaseModel], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``values`` as the specs that ``model`` declares; InvalidFields if there are errors."""
    validated = checked(model, dict(values))
    return {name: getattr(validated, name) for name in model.model_fields}


@dataclass(frozen=True)
class FieldError:
    path: FieldPath
    text: str


def field_errors(
    error: ValidationError, model: type[BaseModel], data: Mapping[str, Any], whole: str = "the file"
) -> list[FieldError]:
    """Return the errors of ``data``, the input of ``model`` that is called ``whole``, one per field."""
    by_field: dict[FieldPath, list[ErrorDetails]] = {}
    faults = error.errors(include_url=False)
    above = {detail["loc"][:-1] for detail in faults}
    for detail in faults:
        if detail["type"] != "too_short" or detail["loc"] not in above:  # invalid members are not counted
            by_field.setdefault(_field_path(detail["loc"], model), []).append(detail)
    return [FieldError(path, _sentence(path, details, model, whole)) for path, details in by_field.items()]


def checked(model: type[Model], data: Mapping[str, Any], whole: str = "the file") -> Model:
    """Return ``data``, which is called ``whole``, as ``model``; InvalidFields with a sentence per error."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise InvalidFields([each.text for each in field_errors(error, model, data, whole)]) from None


def dotted(path: FieldPath) -> str:
    """Return ``path`` as in ``--set``: "train.phases.0.lr"."""
    return brief(".".join(map(str, path)), _NAME)


def can_be_unset(path: FieldPath, model: type[BaseModel]) -> bool:
    """Return whether ``model`` has a field at ``path`` that is unset by default: None or an empty list."""
    above, name = _model_at(path[:-1], model), path[-1]
    field = above.model_fields.get(name) if above and isinstance(name, str) else None
    return field is not None and not field.is_required() and field.default in (None, ())


def _sentence(path: FieldPath, details: list[ErrorDetails], model: type[BaseModel], whole: str) -> str:
    """Return pydantic's messages on the field at ``path``: several if it is a union."""
    first, name = details[0], dotted(path) or whole
    if first["type"] in ("value_error", "assertion_error"):
        text = str(first.get("ctx", {}).get("error", first["msg"]))
        return f"{name}: {text}" if path else text
    if first["type"] == "extra_forbidden":
        fields = sorted(getattr(_model_at(path[:-1], model), "model_fields", {}))
        return f"{name}: there is no such field; {nearest(str(path[-1]), fields, 'there are')}"
    if first["type"] == "missing":
        return f"{name} is missing"
    expected = " or ".join(dict.fromkeys(detail["msg"] for detail in details))
    return f"{name}: {expected}, not {quoted(first['input'], _VALUE)}"


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
