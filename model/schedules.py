"""Learning rate as a pure function of the step (Sec. 5.2)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from mcvrp.model.errors import McvrpError

Kind = Literal["t5", "constant", "cosine", "knee"]


@dataclass(frozen=True)
class Schedule:
    """Learning-rate schedule of a phase; McvrpError if a value does not belong to its kind.

    Parameters
    ----------
    kind
        "t5" (inverse square root): ``peak`` for the first ``warmup`` steps, then proportional to
        1 / sqrt(step); a peak of 0.01 and a warm-up of 10,000 is the paper's 1 / sqrt(max(step, 10,000)).
        The others rise linearly to ``peak`` over ``warmup`` steps; then "constant" stays there, "cosine"
        decays to 0 along half a cosine, and "knee" (warmup–stable–decay) stays until the last ``tail``
        of the steps, over which it decays linearly to 0 (Iyer et al. 2023, the paper's future work).
    tail
        Share of the phase's steps with linear decay, in (0, 1]; "knee" only.
    """

    kind: Kind
    peak: float
    warmup: int = 0
    tail: float = 0.0

    def __post_init__(self) -> None:
        if self.kind == "t5" and self.warmup < 1:
            raise McvrpError("schedule t5 needs a warmup of at least 1 step: give one")
        if self.tail and self.kind != "knee":
            raise McvrpError(f"schedule {self.kind} has no tail: give schedule knee, or no tail")
        if self.kind == "knee" and not self.tail:
            raise McvrpError("schedule knee needs a tail above 0: give one, or schedule constant")

    def __call__(self, step: int, steps: int) -> float:
        """Return the learning rate of ``step`` in ``1..steps``: above 0, so that no step is wasted."""
        if self.kind == "t5":
            return self.peak * (self.warmup / max(step, self.warmup)) ** 0.5
        rise = min(1.0, step / self.warmup) if self.warmup else 1.0
        left = steps + 1 - step
        if self.kind == "cosine" and step > self.warmup:
            share = left / (steps + 1 - self.warmup)
            return self.peak * (1 - math.cos(math.pi * share)) / 2
        if self.kind == "knee":
            return self.peak * min(rise, left / (self.tail * steps))
        return self.peak * rise
