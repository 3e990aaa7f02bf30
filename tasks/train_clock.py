"""Whether a job has time left: rank 0 looks at the clock, and all ranks do as it says."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed


class JobClock:
    """Ends a job while there is still time for its last checkpoint.

    What the job is about to do is taken to last as long as it has lasted at worst so far: the
    steps up to the next look at the clock, and a checkpoint.

    Parameters
    ----------
    ends_at
        When the job has to be over, in seconds since 1970 by rank 0's clock; None lets it run.
    device
        What the ranks agree on is sent from here.
    """

    def __init__(self, ends_at: float | None, device: torch.device) -> None:
        self._ends_at, self._device = ends_at, device
        self._lap = self._save = 0.0  # seconds at worst
        self._since = time.time()

    def over(self) -> bool:
        """Return whether to stop now; every rank has to ask, and all get the same answer."""
        if self._ends_at is None:
            return False
        now = time.time()
        self._lap, self._since = max(self._lap, now - self._since), now
        answer = torch.tensor(int(now + self._lap + self._save > self._ends_at), device=self._device)
        torch.distributed.broadcast(answer, src=0)
        return bool(answer.item())

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Take the time of what is done in this context as that of a checkpoint."""
        began = time.time()
        yield
        took = time.time() - began
        self._save = max(self._save, took)
        self._since += took
