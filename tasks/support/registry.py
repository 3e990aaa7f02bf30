"""Fields of specs whose values are the names of a table, such as that of the solvers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema


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
