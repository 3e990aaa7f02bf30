"""Lengths and times read as a person says them."""

from __future__ import annotations

import pytest

from mcvrp.tasks.support.progress import duration
from mcvrp.tasks.support.text import format_seconds, length_text, readable_unit


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (length_text(5.1234, "unit"), "5.123"),  # of a synthetic city
        (length_text(1234.4, "m"), "1,234 m"),
        (length_text(76_051.2, "m"), "76.05 km"),
        (length_text(2_345_678.0, "m"), "2,346 km"),
        (length_text(12.345, "km"), "12.35 km"),
        (readable_unit("min", 1e6), (1.0, "min")),
        (readable_unit("m", 1999), (1.0, "m")),
        (readable_unit("m", 2000), (0.001, "km")),
        (format_seconds(0.0081), "8.10 ms"),
        (format_seconds(0.5), "500 ms"),
        (format_seconds(5.0), "5.00 s"),
        (format_seconds(76.8), "76.8 s"),
        (format_seconds(918), "15.3 min"),
        (format_seconds(9000), "2.50 h"),
        (duration(3.21), "3.2 s"),
        (duration(42), "42 s"),
        (duration(190), "3 min 10 s"),
        (duration(5 * 3600), "5.0 h"),
        (duration(5.7 * 86400), "5.7 days"),
    ],
)
def test_the_unit_grows_with_the_value(shown: object, text: object) -> None:
    assert shown == text
