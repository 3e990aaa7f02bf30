"""Registries: entries by name, ours and those of plugins, and fields of specs that take one of the names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from mcvrp.model.errors import McvrpError
from mcvrp.storage.layout import NAME_PATTERN

PLUGINS = "mcvrp.plugins"  # group of entry points: modules that register something when they are imported

T = TypeVar("T")


class Registry(Mapping[str, T]):
    """Entries by name, in the order in which they were registered; plugins are loaded when it is read.

    Parameters
    ----------
    kind
        Of an entry, for messages: "solver".
    entries
        Those that the application comes with.
    """

    def __init__(self, kind: str, entries: Mapping[str, T]) -> None:
        self._kind = kind
        self._entries = dict(entries)

    def register(self, name: str, entry: T) -> None:
        """Add ``entry``, which the same module may do again.

        Raises
        ------
        McvrpError
            If the name is taken, or cannot be a part of a path.
        """
        if not re.fullmatch(NAME_PATTERN, name):
            raise McvrpError(f"{name!r} is no name for a {self._kind}: use letters, digits, '.', '_' and '-'")
        if self._entries.setdefault(name, entry) != entry:
            raise McvrpError(f"there is a {self._kind} {name!r} already: register yours by another name")

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
    """Import the modules that installed packages name in the group `mcvrp.plugins`, each once.

    Raises
    ------
    McvrpError
        If one cannot be imported.
    """
    for plugin in _plugins() - _loaded:
        _loaded.add(plugin)  # before it is imported: it may read the registry that it adds to
        try:
            plugin.load()
        except Exception as error:
            _loaded.discard(plugin)
            raise McvrpError(
                f"the plugin {plugin.value} cannot be imported ({type(error).__name__}: {error}): "
                "repair its package, or remove it"
            ) from error


@cache
def _plugins() -> frozenset[EntryPoint]:
    return frozenset(entry_points(group=PLUGINS))


@dataclass(frozen=True)
class OneOf:
    """Type of a field that takes one of ``names``, which a form offers as a list.

    The error is that of a `Literal`, as are its words.
    """

    names: Callable[[], Iterable[str]]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of pydantic that checks a value."""
        return core_schema.no_info_plain_validator_function(self._checked)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> Any:
        """Return the schema that forms are made of."""
        return {"enum": list(self.names()), "type": "string"}

    def _checked(self, value: object) -> object:
        names = list(self.names())
        if value in names:
            return value
        *some, last = map(repr, names)
        expected = f"{', '.join(some)} or {last}" if some else last
        raise PydanticCustomError("literal_error", "Input should be {expected}", {"expected": expected})
