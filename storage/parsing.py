"""Parsing of untrusted JSON and TOML: documents that Python's parsers cannot handle raise ValueError.

A deeply nested document would end in a RecursionError, here or where it is used. Python reads integers of
up to 4,300 digits, but does not print them.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from typing import Any

_DEEPEST = 100  # levels of lists and tables
_SMALLEST, _LARGEST = -(2**63), 2**64 - 1  # range of integers in columns and arrays
_DEEP = f"it is nested more than {_DEEPEST} levels deep"
_LONG = "it has an integer of more than 64 bits"


def parse_json(data: str | bytes) -> Any:
    """Return the JSON document in ``data``.

    Raises ValueError if it is invalid, is nested too deeply, or has an integer of more than 64 bits.
    """
    return _parsed(json.loads, data)


def parse_toml(text: str) -> dict[str, Any]:
    """Return the TOML document in ``text``; errors as in `parse_json`."""
    return _parsed(tomllib.loads, text)


def _parsed(parse: Callable[[Any], Any], text: str | bytes) -> Any:
    try:
        document = parse(text)
    except RecursionError:
        raise ValueError(_DEEP) from None
    except ValueError as error:
        if type(error) is ValueError:  # not of the parser: Python's limit of digits
            raise ValueError(_LONG) from error
        raise
    _require_plain(document, 1)
    return document


def _require_plain(value: Any, level: int) -> None:
    if isinstance(value, int) and not _SMALLEST <= value <= _LARGEST:
        raise ValueError(_LONG)
    if isinstance(value, (dict, list)):
        if level > _DEEPEST:
            raise ValueError(_DEEP)
        for item in value.values() if isinstance(value, dict) else value:
            _require_plain(item, level + 1)
