"""JSON documents of the store as dataclasses, validated by pydantic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from mcvrp.model.errors import McvrpError, brief
from mcvrp.storage.parsing import parse_json
from mcvrp.storage.store.store import Store

T = TypeVar("T")
_REASON = 100  # characters of an error message


def read_document(store: Store, path: str, kind: type[T], **texts: str) -> T:
    """Return the JSON document at ``path`` as the dataclass ``kind``; see `as_document`."""
    return as_document(store.get_json(path), kind, store.url(path), **texts)


def as_document(document: Any, kind: type[T], where: str, *, named: str, hint: str) -> T:
    """Return ``document``, JSON (parsed or as bytes) read from ``where``, as the dataclass ``kind``.

    ``named`` and ``hint`` ("model's card", "remove it") are the expected kind of document and the remedy in
    the error message. McvrpError if a field is missing, unknown or of another type.
    """
    try:
        if isinstance(document, bytes):
            document = parse_json(document)
        if not isinstance(document, Mapping):
            raise ValueError("not an object")
        # pydantic drops unknown fields of a dataclass, but they may change the meaning of the document
        if unknown := set(document) - {field.name for field in fields(kind)}:  # type: ignore[arg-type]
            raise ValueError(f"unknown field {min(unknown)!r}")
        return _adapter(kind).validate_python(document)  # type: ignore[arg-type]
    except ValueError as error:
        why = str(error)
        if isinstance(error, ValidationError):
            first = error.errors(include_url=False)[0]
            why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise McvrpError(f"{where} is not a valid {named} ({brief(why, _REASON)}): {hint}") from error


@lru_cache(maxsize=64)
def _adapter(kind: type[T]) -> TypeAdapter[T]:
    return TypeAdapter(kind)
