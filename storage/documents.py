"""JSON documents of the store as dataclasses: what is read is checked, field by field, by pydantic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from mcvrp.model.errors import McvrpError, brief
from mcvrp.storage.store.parsing import parse_json
from mcvrp.storage.store.store import Store
from mcvrp.storage.versions import Schema, require_readable

T = TypeVar("T")
_FOUND = 100  # characters of what is wrong


def read_document(store: Store, path: str, kind: type[T], schema: Schema | None = None, **said: str) -> T:
    """Return the JSON document at ``path`` as the dataclass ``kind``; see `as_document`."""
    return as_document(store.get_json(path), kind, store.url(path), schema, **said)


def as_document(
    document: Any, kind: type[T], where: str, schema: Schema | None = None, *, named: str, hint: str
) -> T:
    """Return ``document``, JSON (parsed or as bytes) read from ``where``, as the dataclass ``kind``.

    Parameters
    ----------
    schema
        The kind of document, where it names its version.
    named
        What the document should be, for the message: "model's card".
    hint
        What to do about one that is none: "remove it".

    Raises
    ------
    TooNew
        If a newer version of this program wrote it.
    McvrpError
        If it is no such document: a field is missing, of another type, or unknown.
    """
    try:
        if isinstance(document, bytes):
            document = parse_json(document)
        if not isinstance(document, Mapping):
            raise ValueError("not an object")
        if schema is not None:
            require_readable(schema, document, where)
        # a dataclass takes what it knows and drops the rest, but a field that we do not know may matter
        if unknown := set(document) - {field.name for field in fields(kind)}:  # type: ignore[arg-type]
            raise ValueError(f"unknown field {min(unknown)!r}")
        return _adapter(kind).validate_python(document)  # type: ignore[arg-type]
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        found = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise _refusal(where, named, found, hint) from error
    except ValueError as error:
        raise _refusal(where, named, str(error), hint) from error


def _refusal(where: str, named: str, found: str, hint: str) -> McvrpError:
    return McvrpError(f"{where} is no {named} ({brief(found, _FOUND)}): {hint}")


@lru_cache(maxsize=64)
def _adapter(kind: type[T]) -> TypeAdapter[T]:
    return TypeAdapter(kind)
