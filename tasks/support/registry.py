"""Registries: named entries, included or registered by plugins, and fields of specs with their names.

Forms offer the names of a registry, and those that a store has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from mcvrp.model.errors import McvrpError
from mcvrp.storage.layout import NAME_PATTERN
from mcvrp.storage.provenance import PLUGINS

T = TypeVar("T")


class Registry(Mapping[str, T]):
    """Mapping of names to entries of a ``kind``, in order of registration; reading it loads the plugins."""

    def __init__(self, kind: str, entries: Mapping[str, T]) -> None:
        self._kind, self._entries = kind, dict(entries)

    def register(self, name: str, entry: T) -> None:
        """Add ``entry``, unless it has been added; McvrpError if the name is in use or invalid."""
        if not re.fullmatch(NAME_PATTERN, name):
            raise McvrpError(
                f"{name!r} is not a valid name of a {self._kind}: use letters, digits, '.', '_' and '-'"
            )
        if self._entries.setdefault(name, entry) != entry:
            raise McvrpError(f"there already is a {self._kind} {name!r}: use another name")

    def __getitem__(self, name: str) -> T:
        load_plugins()
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        load_plugins()
        return iter(self._entries)

    def __len__(self) -> int:
        return sum(1 for _ in self)


_loaded: set[EntryPoint] = set()


def load_plugins() -> None:
    """Import the modules in the group `mcvrp.plugins` of installed packages; McvrpError if one fails."""
    for plugin in _plugins() - _loaded:
        _loaded.add(plugin)  # before the import, in which a plugin may read its registry
        try:
            plugin.load()
        except Exception as error:
            _loaded.discard(plugin)
            raise McvrpError(
                f"the plugin {plugin.value} cannot be imported ({type(error).__name__}: {error}): "
                "repair or uninstall its package"
            ) from error


@cache
def _plugins() -> frozenset[EntryPoint]:
    return frozenset(entry_points(group=PLUGINS))


@dataclass(frozen=True)
class OneOf:
    """Type of a field with one of ``names`` as its value: a `Literal` whose members are known at run time."""

    names: Callable[[], Iterable[str]]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._checked)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> Any:
        """Return the JSON schema, from which forms are generated."""
        return {"enum": list(self.names()), "type": "string"}

    def _checked(self, value: object) -> object:
        names = list(self.names())
        if value in names:
            return value
        *some, last = map(repr, names)
        expected = f"{', '.join(some)} or {last}" if some else last
        raise PydanticCustomError("literal_error", "Input should be {expected}", {"expected": expected})


_OFFERED: ContextVar[Mapping[str, Sequence[str]]] = ContextVar("offered", default={})  # noqa: B039 - read only


@contextmanager
def offering(names: Mapping[str, Sequence[str]]) -> Iterator[None]:
    """Have the JSON schemas that are made in this context offer ``names``, by folder of the store."""
    token = _OFFERED.set(names)
    try:
        yield
    finally:
        _OFFERED.reset(token)


@dataclass(frozen=True)
class InStore:
    """Type of a field with a name from a ``folder`` of the store; forms offer those that are there."""

    folder: str

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> Any:
        """Return the JSON schema: a name that is offered, or any other, which may be made meanwhile."""
        other = handler(schema)
        if not (names := _OFFERED.get().get(self.folder)):
            return other
        offered = {"title": "In the store", "type": "string", "enum": list(names)}
        return {"anyOf": [offered, {**other, "title": "Other"}]}
