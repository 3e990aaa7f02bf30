"""Lengths for people: metres become kilometres where they are many."""

from __future__ import annotations

_MANY = 2000.0  # metres


def readable_unit(unit: str, largest: float) -> tuple[float, str]:
    """Return the factor and the unit in which lengths up to ``largest`` ``unit`` are easy to read."""
    return (0.001, "km") if unit == "m" and abs(largest) >= _MANY else (1.0, unit)


def unit_words(unit: str) -> str:
    """Return what a cost of 1 means, for a sentence: "km", "sides of the city's square"."""
    return "sides of the city's square" if unit == "unit" else unit


def length_text(value: float, unit: str) -> str:
    """Return a length with its unit: "12.35 km", "5.123" in a synthetic city."""
    if unit == "unit":
        return f"{value:.3f}"
    factor, name = readable_unit(unit, value)
    return f"{value * factor:,.4g} {name}" if abs(value * factor) < 1000 else f"{value * factor:,.0f} {name}"
