"""Errors of a file by row, reported in one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from mcvrp.model.errors import LONGEST, McvrpError, brief, enumerated

MOST_FAULTS = 100  # a file with more is not read to its end
LARGEST = 1e9  # coordinate: beyond it, float64 does not resolve millimetres in squares
_NAME = 60  # characters of a file name


@dataclass
class Faults:
    """Errors of the file ``name``: a sentence reports the first ones and counts the others."""

    name: str
    found: list[tuple[int, str]] = field(default_factory=list)  # with rows; 0 is the whole file
    untold: int = 0
    _stopped: bool = False

    def add(self, text: str, row: int = 0) -> None:
        """Add an error of a row, or of the file; raise the McvrpError of `check` if there are too many."""
        self.found.append((row, text))
        if len(self.found) > MOST_FAULTS:
            self._stopped = True
            self.check()

    def at(self, row: int | np.integer[Any], text: str) -> None:
        """Add an error of a row; its number is prepended to ``text``."""
        self.add(f"row {row}: {text}", int(row))

    def add_all(self, texts: Iterator[str], count: int) -> None:
        """Add ``count`` errors of the file; only the reported ones are taken from ``texts``."""
        for text in islice(texts, min(count, MOST_FAULTS)):
            self.add(text)
        self.untold += max(0, count - MOST_FAULTS)

    def check(self) -> None:
        """Raise McvrpError if there are errors."""
        if not self.found:
            return
        texts = [text for _, text in sorted(self.found, key=lambda fault: fault[0])]
        name = brief(self.name, _NAME)
        errors = enumerated(texts, "; ", LONGEST - len(name) - 2, more=self.untold, at_least=self._stopped)
        raise McvrpError(f"{name}: {errors}")
