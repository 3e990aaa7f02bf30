"""Text of times, lengths and lists."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_KILOMETRES = 2000.0  # metres from which kilometres are used
_SECONDS = ("s", "sec", "second", "seconds")
METRES = {"m": 1.0, "km": 1000.0, "mi": 1609.344}  # per unit of length
SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0}  # per unit of time
_HOUR = r"(?:[01]?\d|2[0-4])"
_TIME_OF_DAY = re.compile(  # 8:00, 8h30, 10.30 Uhr, 5 pm
    rf"(?i)(?<![\w:.,]){_HOUR}(?::[0-5]\d|(?:\.[0-5]\d)?\s?(?:h(?:[0-5]\d)?|uhr|[ap]\.?m))(?![^\W_])"
)


def format_seconds(seconds: float) -> str:
    """Return a time with three significant digits: "8.10 ms", "5.00 s", "1.28 min", "1.05 h"."""
    for limit, factor, unit in ((0.9995, 1000.0, "ms"), (99.95, 1.0, "s"), (5997, 1 / 60, "min")):
        if seconds < limit:
            value = seconds * factor
            return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f} {unit}"
    return f"{seconds / 3600:.2f} h"


def rough(number: float) -> str:
    """Return a number without decimals, a large one with three significant digits: 6950.5 is "6,950"."""
    return f"{float(f'{number:.3g}') if number >= 1000 else number:,.0f}"


def readable_unit(unit: str, largest: float) -> tuple[float, str]:
    """Return the factor and the readable unit of lengths up to ``largest`` ``unit``."""
    return (0.001, "km") if unit == "m" and abs(largest) >= _KILOMETRES else (1.0, unit)


def unit_text(unit: str) -> str:
    """Return the unit of costs for a sentence: "km", "sides of the city's square"."""
    return "sides of the city's square" if unit == "unit" else unit


def is_seconds(unit: str) -> bool:
    """Return True if costs in ``unit`` are times."""
    return unit.casefold() in _SECONDS


def length_text(value: float, unit: str) -> str:
    """Return a length with two decimals at most: "12.35 km", "1 h 20 min"; "5.123" in a synthetic city."""
    if is_seconds(unit):
        return time_text(value)
    if unit == "unit":
        return f"{value:.3f}"
    factor, name = readable_unit(unit, value)
    value = round(value * factor, 2)
    return f"{value:,.4g} {name}" if abs(value) < 1000 else f"{value:,.0f} {name}"


def time_text(seconds: float) -> str:
    """Return a time in whole seconds below an hour, else in minutes: "45 s", "12 min 5 s", "7 h 30 min"."""
    units, (large, small) = ("min", "s"), divmod(round(seconds), 60)
    if large >= 60:
        units, (large, small) = ("h", "min"), divmod(round(seconds / 60), 60)
    return " ".join(f"{k} {unit}" for k, unit in zip((large, small), units, strict=True) if k) or "0 s"


def times_of_day(columns: Mapping[str, Iterable[str]]) -> list[str]:
    """Return a note on the ``columns``, texts by title, of whose cells most have a time of day, if any."""
    filled = {title: list(filter(None, texts)) for title, texts in columns.items()}
    timed = [
        title
        for title, texts in filled.items()
        if 2 * sum(bool(_TIME_OF_DAY.search(text)) for text in texts) > len(texts)
    ]
    return [f"{listed(timed)}: looks like times of day, which no routes here respect"] if timed else []


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: "1 customer", "1,200 customers"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(words: Iterable[object], most: int = 5) -> str:
    """Return at most ``most`` of ``words`` and the number of the others: "a, b and 3 more"."""
    all_words = [str(word) for word in words]
    if len(all_words) > most:
        return f"{', '.join(all_words[:most])} and {len(all_words) - most:,} more"
    return " and ".join([", ".join(all_words[:-1]), all_words[-1]] if all_words[1:] else all_words)
