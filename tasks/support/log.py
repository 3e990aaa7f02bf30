"""Words for a person at the terminal: stdout is for results."""

from __future__ import annotations

import sys


def say(text: str) -> None:
    """Write a line to stderr."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
