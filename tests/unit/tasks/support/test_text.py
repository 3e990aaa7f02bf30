"""Lengths read as a person says them."""

from __future__ import annotations

import pytest

from mcvrp.tasks.support.text import length_text, readable_unit


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (5.1234, "unit", "5.123"),  # of a synthetic city, as before
        (1234.4, "m", "1,234 m"),
        (76_051.2, "m", "76.05 km"),
        (2_345_678.0, "m", "2,346 km"),
        (12.345, "km", "12.35 km"),
        (95.5, "min", "95.5 min"),
    ],
)
def test_many_metres_are_kilometres(value: float, unit: str, text: str) -> None:
    """Four digits, and the unit beside them."""
    assert length_text(value, unit) == text


def test_a_unit_of_somebodys_own_is_left_alone() -> None:
    """Only metres change."""
    assert readable_unit("min", 1e6) == (1.0, "min")
    assert readable_unit("m", 1999) == (1.0, "m")
    assert readable_unit("m", 2000) == (0.001, "km")
