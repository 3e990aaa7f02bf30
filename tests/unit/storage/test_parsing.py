"""JSON and TOML: a document that is invalid, too deep or has too large integers is a ValueError."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mcvrp.storage.parsing import parse_json, parse_toml

READERS = [(parse_json, '{"x": %s}'), (parse_toml, "x = %s")]


@pytest.mark.parametrize(("read", "form"), READERS)
@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("[" * 101 + "]" * 101, "nested more than 100 levels deep"),
        ("[" * 100_000, "nested more than 100 levels deep"),
        ("9" * 5000, "an integer of more than 64 bits"),
        (f"[1, {2**64}]", "an integer of more than 64 bits"),
        ("[1, ", "alue"),
    ],
)
def test_an_unusable_one_is_refused(read: Callable[[str], Any], form: str, value: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(form % value)


@pytest.mark.parametrize(("read", "form"), READERS)
def test_the_largest_and_deepest_document_is_read(read: Callable[[str], Any], form: str) -> None:
    assert read(form % (2**64 - 1)) == {"x": 2**64 - 1}
    assert read(form % -(2**63)) == {"x": -(2**63)}
    deep = read(form % ("[" * 98 + "]" * 98))["x"]
    for _ in range(97):
        (deep,) = deep
    assert deep == []
