"""Numbers in text files: ASCII digits, decimal point, exponent; whole numbers without rounding."""

from __future__ import annotations

import re

NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_WHOLE = re.compile(r"([+-]?[0-9]{1,100})(?:\.0*)?")


def whole(text: str) -> int | None:
    """Return ``text`` as a whole number ("3", "+3", "3.0"), None if it is not one.

    Nothing is rounded: "3.0000000000000000001" is not a whole number.
    """
    match = _WHOLE.fullmatch(text)
    return int(match[1]) if match else None
