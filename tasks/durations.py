"""Times as people write them."""

from __future__ import annotations


def format_seconds(seconds: float) -> str:
    """Return a time per instance with three digits that count: "8.10 ms", "5.00 s", "1.28 min", "1.05 h"."""
    for limit, factor, unit in ((0.9995, 1000.0, "ms"), (99.95, 1.0, "s"), (5997, 1 / 60, "min")):
        if seconds < limit:
            value = seconds * factor
            return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f} {unit}"
    return f"{seconds / 3600:.2f} h"
