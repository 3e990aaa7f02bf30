"""Parameters of flows, checked: the same sentences for a form, for the API and for `--set`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Annotated, Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from mcvrp.flows.config import settings
from mcvrp.flows.config.errors import field_errors, first_of
from mcvrp.model.errors import McvrpError
from mcvrp.storage.layout import NAME_PATTERN
from mcvrp.tasks.city.spec import AddressFile
from mcvrp.tasks.files.file_bytes import IN_STORE


def shown(title: str, description: str) -> Any:
    """Return what a form shows of a parameter; Prefect takes over only what is written this way."""
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


def in_store(name: str, place: str) -> str:
    """Return ``place`` as the address of an object of the store, which is all that a form may name.

    Whoever can open the Prefect UI would else read whatever its workers can.

    Raises
    ------
    McvrpError
        If the parameter ``name`` is no path within the store.
    """
    path = place.removeprefix(IN_STORE)
    if not path or "://" in path or PurePath(path).is_absolute() or {"..", "~"} & set(PurePath(path).parts):
        raise McvrpError(
            f"{name} = {place!r} is no path in the store: put the file there, as uploads/monday.csv, say, "
            "and give that path"
        )
    return IN_STORE + path


def of_worker(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``values``, the parameters of a flow, as a worker takes them from a form.

    Files are objects of the store, and the store is the worker's own, or one that the operator names.

    Raises
    ------
    McvrpError
        If a file lies elsewhere, or the store is another.
    """
    taken = {name: _with_files_in_store(name, value) for name, value in values.items()}
    for name in ("orders", "start"):
        if isinstance(place := taken.get(name), str):
            taken[name] = in_store(name, place)
    store = taken.get("store")
    if store not in (None, settings.store_uri(None), *settings.other_stores()):
        raise McvrpError(
            f"store = {store!r} is not that of the worker: leave it empty, "
            "or have the worker started with MCVRP_STORES naming it"
        )
    return taken


def _with_files_in_store(name: str, value: Any) -> Any:
    """Return ``value`` with `in_store` done to the files of each `AddressFile` in it."""
    if isinstance(value, AddressFile):
        given = {file: place for file in ("file", "matrix", "history") if (place := getattr(value, file))}
        return value.model_copy(update={file: in_store(f"{name}.{file}", given[file]) for file in given})
    if not isinstance(value, BaseModel):
        return value
    fields = {field: getattr(value, field) for field in type(value).model_fields}
    kept = {field: _with_files_in_store(f"{name}.{field}", old) for field, old in fields.items()}
    changed = {field: new for field, new in kept.items() if new is not fields[field]}
    return value.model_copy(update=changed) if changed else value


def parameters_of(body: Callable[..., Any]) -> type[BaseModel]:
    """Return the model of what ``body`` takes: a field a parameter."""
    hints = get_type_hints(body, include_extras=True)
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(body).parameters.items():
        required = parameter.default is inspect.Parameter.empty
        fields[name] = (hints[name], ... if required else parameter.default)
    config = ConfigDict(extra="forbid", protected_namespaces=())
    return create_model(body.__name__, __config__=config, **fields)


def parsed(model: type[BaseModel], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``given`` as the specs that ``model`` asks for.

    Raises
    ------
    McvrpError
        In one sentence: the field, what was found, what was expected.
    """
    try:
        checked = model.model_validate(dict(given))
    except ValidationError as error:
        raise McvrpError(first_of(field_errors(error, model, given))) from None
    return {name: getattr(checked, name) for name in model.model_fields}
