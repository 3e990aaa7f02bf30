"""JSON and TOML that Python's readers choke on: a ValueError, as of any other document that is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mcvrp.storage.store.parsing import parse_json, parse_toml

READERS = [(parse_json, '{"x": %s}'), (parse_toml, "x = %s")]


@pytest.mark.parametrize(("read", "form"), READERS)
@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("[" * 101 + "]" * 101, "nested more than 100 levels deep"),
        ("[" * 100_000, "nested more than 100 levels deep"),
        ("9" * 5000, "an integer of more than 64 bits"),
        (f"[1, {2**64}]", "an integer of more than 64 bits"),
        ("[1, ", "alue"),
    ],
)
def test_what_cannot_be_used_is_refused(read: Callable[[str], Any], form: str, value: str, said: str) -> None:
    """It says what is wrong, in words that are not Python's."""
    with pytest.raises(ValueError, match=said):
        read(form % value)


@pytest.mark.parametrize(("read", "form"), READERS)
def test_the_largest_that_can_be_used_is_read(read: Callable[[str], Any], form: str) -> None:
    """64 bits, and 98 lists within a list within a table."""
    assert read(form % (2**64 - 1)) == {"x": 2**64 - 1}
    assert read(form % -(2**63)) == {"x": -(2**63)}
    deep = read(form % ("[" * 98 + "]" * 98))["x"]
    for _ in range(97):
        (deep,) = deep
    assert deep == []
