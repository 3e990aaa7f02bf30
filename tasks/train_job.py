"""What every rank of a training phase is told, and what rank 0 tells back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from model.problem import City
from storage.checkpoints import CheckpointState, Origin
from storage.store import Store
from tasks.train_spec import TrainSpec

# A report is a flat document with "event": "started" (step, steps), "step" (a row of
# metrics), "saved" (step) or "refused" (message: an error that a user can mend).
Report = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class RankJob:
    """All that a rank needs to know.

    Parameters
    ----------
    store, city, spec, phase
        What to train, and where its labels and checkpoints are.
    counts
        Rows of each size from ``spec.smallest`` up.
    origin
        What the checkpoints of this phase carry.
    start
        The checkpoint with the weights to start from: one of this phase, or the last of the
        phase before; None begins with random weights.
    ranks
        Processes that share each step.
    cores
        Processor cores that all ranks of one machine share.
    """

    store: Store
    city: City
    spec: TrainSpec
    phase: str
    counts: tuple[int, ...]
    origin: Origin
    start: CheckpointState | None
    ranks: int
    cores: int

    @property
    def resumed(self) -> CheckpointState | None:
        """The checkpoint of this very phase to go on from, if there is one."""
        return self.start if self.start is not None and self.start.phase == self.phase else None
