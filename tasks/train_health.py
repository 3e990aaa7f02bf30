"""Whether a phase's losses are those of a run that learns: finite, and not blown up for good.

A plateau never counts: losses of this problem fall again after long ones (double descent,
Sec. 5.2), and a loss that rises for a while may come back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from storage.metrics import StepMetrics

# A loss has blown up when it is above both of these, as seen from the best loss so far.
_FACTOR = 5.0
_RISE = 1.0  # nats


@dataclass
class Watch:
    """Follows the loss of one stream of tokens, row by row.

    Parameters
    ----------
    stream
        "problem" or "solution".
    choices
        Among how many nodes the network chooses: a loss above uniform guessing, ln(choices),
        is worse than no knowledge.
    limit
        Steps in a row that a loss may be out of bounds.
    """

    stream: str
    choices: int
    limit: int
    best: float = math.inf
    sound_step: int = 0  # the last step whose loss was within bounds

    def update(self, row: StepMetrics) -> str | None:
        """Return what is wrong with the loss after ``row``, None while nothing is."""
        loss = getattr(row, f"{self.stream}_loss")
        if math.isnan(loss):  # this phase does not train the stream
            return None
        self.best = min(self.best, loss)
        uniform = math.log(self.choices)
        bound = min(uniform, max(_FACTOR * self.best, self.best + _RISE))
        if loss <= bound:
            self.sound_step = row.step
        if row.step - self.sound_step <= self.limit:
            return None
        return (
            f"has diverged: {loss:.3g} on {self.stream} tokens, above {bound:.3g} for "
            f"{row.step - self.sound_step} steps (best {self.best:.3g}, uniform guessing {uniform:.3g})"
        )
