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
    _errors: list[tuple[int, str]] = field(default_factory=list)  # with rows; 0 is the whole file
    _more: int = 0

    def add(self, text: str, row: int = 0) -> None:
        """Add an error of a row, or of the file; raise the McvrpError of `check` if there are too many."""
        self._errors.append((row, text))
        if len(self._errors) > MOST_FAULTS:
            self.check(at_least=True)

    def at(self, row: int | np.integer[Any], text: str) -> None:
        """Add an error of a row; its number is prepended to ``text``."""
        self.add(f"row {row}: {text}", int(row))

    def add_all(self, texts: Iterator[str], count: int) -> None:
        """Add ``count`` errors of the file; only the reported ones are taken from ``texts``."""
        for text in islice(texts, min(count, MOST_FAULTS)):
            self.add(text)
        self._more += max(0, count - MOST_FAULTS)

    def check(self, *, at_least: bool = False) -> None:
        """Raise McvrpError if there are errors; ``at_least`` if the file was not read to its end."""
        if self._errors:
            texts = [text for _, text in sorted(self._errors, key=lambda error: error[0])]
            name = brief(self.name, _NAME)
            errors = enumerated(texts, "; ", LONGEST - len(name) - 2, more=self._more, at_least=at_least)
            raise McvrpError(f"{name}: {errors}")
