"""Validation of flow parameters, with the same messages for forms, the API and `--set`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Annotated, Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from mcvrp.flows.config import settings
from mcvrp.flows.config.errors import field_errors
from mcvrp.model.errors import InvalidFields, McvrpError
from mcvrp.storage.layout import NAME_PATTERN
from mcvrp.tasks.city.spec import AddressFile
from mcvrp.tasks.files.file_bytes import IN_STORE


def shown(title: str, description: str) -> Any:
    """Return the title and description of a parameter in a form; Prefect reads them only from here."""
    return Field(json_schema_extra={"title": title, "description": description})


CityName = Annotated[
    str,
    Field(pattern=NAME_PATTERN),
    shown("City", "Name of the city in the store; the flow `city` creates it"),
]
ModelName = Annotated[
    str | None, shown("Model", "Name of the model in the store; empty if no method needs one")
]
StoreUri = Annotated[
    str | None,
    shown("Store", "Empty: the worker's store; others must be listed in its MCVRP_STORES"),
]


def in_store(name: str, file: str) -> str:
    """Return ``file``, the parameter ``name`` of a form, as the address of an object of the store.

    McvrpError for any other file: every user of the Prefect UI could read whatever its workers can.
    """
    path = file.removeprefix(IN_STORE)
    if not path or "://" in path or PurePath(path).is_absolute() or {"..", "~"} & set(PurePath(path).parts):
        raise McvrpError(
            f"{name} = {file!r} is not a path in the store: upload the file there, for example as "
            "uploads/monday.csv, and enter that path"
        )
    return IN_STORE + path


def of_worker(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``values``, the parameters of a form, restricted to what users of the UI may access.

    Files are objects of the store, and the store is the worker's own or one that the operator allows;
    McvrpError for others.
    """
    restricted = {name: _with_files_in_store(name, value) for name, value in values.items()}
    for name in ("orders", "start", "keep"):
        if isinstance(file := restricted.get(name), str):
            restricted[name] = in_store(name, file)
    store = restricted.get("store")
    if store not in (None, settings.store_uri(None), *settings.other_stores()):
        raise McvrpError(
            f"store = {store!r} is not the store of the worker: leave it empty, or start the worker with it "
            "in MCVRP_STORES"
        )
    return restricted


def _with_files_in_store(name: str, value: Any) -> Any:
    """Return ``value`` with `in_store` applied to the files of each `AddressFile` in it."""
    if isinstance(value, AddressFile):
        files = {field: file for field in ("file", "matrix", "history") if (file := getattr(value, field))}
        return value.model_copy(
            update={field: in_store(f"{name}.{field}", file) for field, file in files.items()}
        )
    if not isinstance(value, BaseModel):
        return value
    changed = {
        field: new
        for field in type(value).model_fields
        if (new := _with_files_in_store(f"{name}.{field}", old := getattr(value, field))) is not old
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
    try:
        validated = model.model_validate(dict(values))
    except ValidationError as error:
        raise InvalidFields([each.text for each in field_errors(error, model, values)]) from None
    return {name: getattr(validated, name) for name in model.model_fields}
