"""Learning rate as a pure function of the step (Sec. 5.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from model.errors import McvrpError


@dataclass(frozen=True)
class Schedule:
    """How the learning rate moves during a phase.

    Parameters
    ----------
    kind
        "t5": ``peak`` for the first ``warmup`` steps, then falling as 1 / sqrt(step); a peak of
        0.01 and a warm-up of 10,000 is the paper's 1 / sqrt(max(step, 10,000)).
        "constant": a linear rise to ``peak`` over ``warmup`` steps, then ``peak``, then a
        linear fall towards 0 over the last ``tail`` of the steps.
    peak
        The largest learning rate.
    warmup
        In steps.
    tail
        A share of the phase's steps, in [0, 1]; "constant" only.

    Raises
    ------
    McvrpError
        If a value is out of its range.
    """

    kind: Literal["t5", "constant"]
    peak: float
    warmup: int = 0
    tail: float = 0.0

    def __post_init__(self) -> None:
        if not self.peak > 0:
            raise McvrpError(f"lr must be positive, not {self.peak}")
        if self.warmup < 0:
            raise McvrpError(f"warmup must not be negative, not {self.warmup}")
        if not 0 <= self.tail <= 1:
            raise McvrpError(f"tail is a share of the steps in [0, 1], not {self.tail}")
        if self.kind == "t5" and (self.warmup < 1 or self.tail):
            raise McvrpError("schedule t5 needs a warmup of at least 1 step and has no tail")

    def __call__(self, step: int, steps: int) -> float:
        """Return the learning rate of ``step`` in ``1..steps``."""
        if self.kind == "t5":
            return self.peak * (self.warmup / max(step, self.warmup)) ** 0.5
        rise = min(1.0, step / self.warmup) if self.warmup else 1.0
        fall = min(1.0, (steps + 1 - step) / (self.tail * steps)) if self.tail else 1.0
        return self.peak * min(rise, fall)
