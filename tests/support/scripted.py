"""Member of a portfolio with given answers, in a module of its own: its process imports no torch."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass

from mcvrp.model.problem import Solution
from mcvrp.tasks.solve.member import Found


@dataclass(frozen=True)
class Scripted:
    """A member whose answers are given: each after some seconds, None for a slice without one, or its end."""

    label: str
    script: tuple[tuple[float, Solution | Exception | int | None], ...]

    def found(self, until: float) -> Iterator[Found]:
        for seconds, answer in self.script:
            time.sleep(seconds)
            if answer is None or isinstance(answer, Solution):
                yield Found(self.label, answer)
            elif isinstance(answer, int):
                os.kill(os.getpid(), answer)
            else:
                raise answer
