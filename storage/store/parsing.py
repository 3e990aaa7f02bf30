"""Parsing of untrusted JSON and TOML: documents that Python's parsers cannot handle raise ValueError.

A deeply nested document would end in a RecursionError, here or where it is used. Python reads integers of
up to 4,300 digits, but does not print them.
"""

from __future__ import annotations

import json
import tomllib
from typing import Any, TypeVar

_DEEPEST = 100  # levels of lists and tables
_SMALLEST, _LARGEST = -(2**63), 2**64 - 1  # range of integers in columns and arrays
_DIGITS = 20
_Document = TypeVar("_Document")


def parse_json(data: str | bytes) -> Any:
    """Return the JSON document in ``data``.

    Raises ValueError if it is invalid, is nested too deeply, or has an integer of more than 64 bits.
    """
    try:
        document = json.loads(data, parse_int=_whole)
    except RecursionError:
        raise _too_deep() from None
    return _plain(document)


def parse_toml(text: str) -> dict[str, Any]:
    """Return the TOML document in ``text``; errors as in `parse_json`."""
    try:
        document = tomllib.loads(text)
    except RecursionError:
        raise _too_deep() from None
    except tomllib.TOMLDecodeError:
        raise
    except ValueError as error:  # Python's message is about its own settings
        raise _too_long() from error
    return _plain(document)


def _whole(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise _too_long()
    return int(digits)


def _plain(document: _Document) -> _Document:
    """Return ``document`` if its depth and its integers are within the limits."""
    level, depth = list[Any]([document]), 0
    while level:
        depth += 1
        if depth > _DEEPEST:
            raise _too_deep()
        below = list[Any]()
        for value in level:
            if isinstance(value, dict):
                below += value.values()
            elif isinstance(value, list):
                below += value
            elif isinstance(value, int) and not _SMALLEST <= value <= _LARGEST:
                raise _too_long()
        level = below
    return document


def _too_deep() -> ValueError:
    return ValueError(f"it is nested more than {_DEEPEST} levels deep")


def _too_long() -> ValueError:
    return ValueError("it has an integer of more than 64 bits")
