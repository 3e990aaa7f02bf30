"""What is wrong with a file, by row, told in one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from mcvrp.model.errors import LONGEST, McvrpError, brief, enumerated

MOST_FAULTS = 100  # that are looked for: a file that is wrong throughout need not be read to its end
LARGEST = 1e9  # of a coordinate: beyond, float64 no longer tells millimetres apart when squared
_NAME = 60  # characters of a file's name


@dataclass
class Faults:
    """Faults of the file ``name``: as many are told at once as a sentence holds, the others are counted."""

    name: str
    found: list[tuple[int, str]] = field(default_factory=list)  # by row, 0 is the file itself
    untold: int = 0
    _stopped: bool = False

    def add(self, text: str, row: int = 0) -> None:
        """Remember a fault of a row, or of the file; McvrpError, as of `check`, where there are too many."""
        self.found.append((row, text))
        if len(self.found) > MOST_FAULTS:
            self._stopped = True
            self.check()

    def at(self, row: int | np.integer[Any], text: str) -> None:
        """Remember a fault of a row, whose number the text then begins with."""
        self.add(f"row {row}: {text}", int(row))

    def add_all(self, texts: Iterator[str], count: int) -> None:
        """Remember ``count`` faults of the file, of which no more are put in words than are told."""
        for text in islice(texts, min(count, MOST_FAULTS)):
            self.add(text)
        self.untold += max(0, count - MOST_FAULTS)

    def check(self) -> None:
        """Raise McvrpError if anything was wrong."""
        if not self.found:
            return
        texts = [text for _, text in sorted(self.found, key=lambda fault: fault[0])]
        name = brief(self.name, _NAME)
        told = enumerated(texts, "; ", LONGEST - len(name) - 2, more=self.untold, at_least=self._stopped)
        raise McvrpError(f"{name}: {told}")
