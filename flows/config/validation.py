"""Validation of specs and flow parameters, with the same messages for forms, the API and `--set`.

Errors are pydantic's, one line per field; `_EXPECTED` replaces its regular expressions.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Annotated, Any, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic_core import ErrorDetails

from mcvrp.model.errors import InvalidFields, brief, shown as quoted
from mcvrp.storage.layout import NAME_PATTERN
from mcvrp.tasks.city.spec import UNIT_PATTERN
from mcvrp.tasks.files.file_bytes import IN_STORE, is_pasted
from mcvrp.tasks.solve.spec import LENGTH_PATTERN
from mcvrp.tasks.support.registry import InStore
from mcvrp.tasks.train.spec import BASE

Model = TypeVar("Model", bound=BaseModel)
_FILES = {"orders", "keep", "file", "matrix"}  # of `solve`, and of `AddressFile`
_NAME, _VALUE = 80, 60  # characters of a field's name, of its value
_EXPECTED = {  # by pattern
    NAME_PATTERN: "up to 100 letters, digits, '.', '_' and '-', the first a letter or digit",
    LENGTH_PATTERN: "one with a unit such as 45km, 20.5km or 90min",
    BASE.pattern: "a model and version such as lyon@3",
    UNIT_PATTERN: "up to 12 characters without spaces, quotation marks, <, > and &",
}


def shown(title: str, description: str) -> Any:
    """Return the title and description of a parameter in a form; Prefect reads them only from here."""
    return Field(json_schema_extra={"title": title, "description": description})


CityName = Annotated[
    str,
    Field(pattern=NAME_PATTERN),
    InStore("cities"),
    shown("City", "Name of the city in the store; the flow `city` creates it"),
]
ModelName = Annotated[
    Annotated[str, InStore("models")] | None,
    shown("Model", "Name of the model in the store; choose None if no method needs one"),
]
StoreUri = Annotated[
    str | None,
    shown("Store", "Empty: the store that the UI was started with"),
]


def of_form(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``values``, the JSON of a form, whose relative paths are files in the store."""
    return {
        name: of_form(value)
        if isinstance(value, Mapping)
        else _in_store(value)
        if name in _FILES and isinstance(value, str)
        else value
        for name, value in values.items()
    }


def _in_store(file: str) -> str:
    elsewhere = "://" in file or is_pasted(file) or PurePath(file).is_absolute()
    return file if elsewhere or file.startswith(IN_STORE) else IN_STORE + file


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


def checked(
    model: type[Model], data: Mapping[str, Any], where: Callable[[str], str] = lambda field: ""
) -> Model:
    """Return ``data`` as ``model``; InvalidFields with a line per field: several messages for a union.

    ``where`` returns what precedes the sentence on a field.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        by_field = dict[str, list[ErrorDetails]]()
        for detail in error.errors(include_url=False):
            by_field.setdefault(_dotted(detail, data), []).append(detail)
        sentences = (
            f"{where(name)}{name}: {_sentence(each)}" if name else where(name) + _sentence(each)
            for name, each in by_field.items()
        )
        raise InvalidFields(list(sentences)) from None


def _sentence(details: list[ErrorDetails]) -> str:
    """Return what is wrong with the value of a field: several errors for a union."""
    first, text = details[0], " or ".join(dict.fromkeys(map(_message, details)))
    if first["type"] == "extra_forbidden":
        return "there is no such field"
    if first["type"] not in ("missing", "value_error", "too_short", "too_long"):
        text += f", not {quoted(first['input'], _VALUE)}"
    return text.replace(" or Input should be ", " or ")


def _message(detail: ErrorDetails) -> str:
    if expected := _EXPECTED.get(detail.get("ctx", {}).get("pattern", "")):
        return f"Input should be {expected}"
    return detail["msg"].removeprefix("Value error, ")


def _dotted(detail: ErrorDetails, data: Any) -> str:
    """Return the field of ``detail`` as in ``--set``, without the members of unions: "train.phases.0.lr"."""
    path: list[str | int] = []
    for part in detail["loc"]:
        try:
            data = data[part]
        except (LookupError, TypeError):  # not a field: pydantic inserts the member of a union
            continue
        path.append(part)
    if detail["type"] == "missing":
        path.append(detail["loc"][-1])
    return brief(".".join(map(str, path)), _NAME)
