"""Arguments of the public API, checked against their annotations: one of another type is a McvrpError."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, wraps
from inspect import signature
from numbers import Integral, Real
from types import SimpleNamespace, UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from mcvrp.model.errors import McvrpError, shown

P = ParamSpec("P")
T = TypeVar("T")
_WIDER = {int: Integral, float: Real, tuple: Iterable, Any: object}  # NumPy's numbers, lists, columns


def typed(function: Callable[P, T]) -> Callable[P, T]:
    """Return ``function`` that raises McvrpError for arguments of other types than it declares."""
    names = list(signature(function).parameters)

    @wraps(function)
    def checking(*args: P.args, **kwargs: P.kwargs) -> T:
        require_types(function, dict(zip(names, args, strict=False)) | kwargs)
        return function(*args, **kwargs)

    return checking


def require_types(declaring: Callable[..., Any], values: Mapping[str, Any]) -> None:
    """Raise McvrpError unless ``values`` have the types that ``declaring``, a function or class, declares."""
    for name, (kind, text) in _declared(declaring).items():
        if name in values and not _fits(values[name], kind):
            where = f"{name} of {declaring.__qualname__}"
            raise McvrpError(f"{where} should be of type {text}, not {shown(values[name])}")


@cache
def _declared(declaring: Callable[..., Any]) -> dict[str, tuple[Any, str]]:
    parameters = {name: each.annotation for name, each in signature(declaring).parameters.items()}
    texts = {name: text for name, text in parameters.items() if isinstance(text, str)}
    # without the type of the result, which only type checkers may import
    kinds = get_type_hints(SimpleNamespace(__annotations__=texts), vars(sys.modules[declaring.__module__]))
    return {name: (kinds[name], texts[name]) for name in texts}


def _fits(value: object, kind: Any) -> bool:
    """Return whether ``value`` is of type ``kind``; text is no collection of letters, True no number."""
    origin, parts = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, UnionType):
        return any(_fits(value, part) for part in parts)
    if origin is Literal:
        return value in parts
    if isinstance(value, type) or (parts and isinstance(value, str | bytes)):
        return False
    if isinstance(value, bool) and origin in (int, float):
        return False
    if parts and origin in (Iterable, Sequence) and isinstance(value, list | tuple):
        return all(_fits(member, parts[0]) for member in value)
    return isinstance(value, _WIDER.get(origin, origin))
