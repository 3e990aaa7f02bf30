"""Job of the ranks of a training phase: all that they need to know, and the error if they die."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from mcvrp.model.errors import IncompleteError
from mcvrp.model.instances import Rules
from mcvrp.model.problem import City
from mcvrp.storage.store.lease import Lease
from mcvrp.storage.store.store import Store
from mcvrp.storage.training.checkpoints import CheckpointState, Origin, latest_checkpoint
from mcvrp.tasks.train.spec import TrainSpec


@dataclass(frozen=True)
class RankJob:
    """Input of a rank: what to train, from which checkpoint, and together with which other ranks."""

    store: Store
    city: City
    spec: TrainSpec
    phase: str
    counts: tuple[int, ...]  # rows of each size from `spec.smallest` up
    origin: Origin  # recorded in the checkpoints of this phase
    # Has the initial weights: of this phase, or the last of the previous one; None: random weights.
    start: CheckpointState | None
    ranks: int
    cores: int  # shared by all ranks of one machine
    cache: Path  # folder of each machine for its copy of the labels
    # Held by the process that started the ranks; rank 0 confirms it before every write.
    lease: Lease
    rules: Rules = field(default_factory=Rules)  # of the instances of a policy-gradient phase
    ends_at: float | None = None  # deadline in seconds since 1970

    def for_ranks(self) -> RankJob:
        """Return the job with a store that does not wait: ranks retry in their loop, and report outages."""
        return replace(self, store=self.store.outlasting(0))

    @property
    def resumed(self) -> CheckpointState | None:
        """The checkpoint of this very phase to resume from, if there is one."""
        return self.start if self.start is not None and self.start.phase == self.phase else None


class RanksDiedError(IncompleteError):
    """Ranks ended without an error message for the user (signal, lost node, bug); ``reason`` says why."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


def ranks_died(job: RankJob, reason: str, log: str = "") -> RanksDiedError:
    """Return the error with the reason, the last checkpoint and the remedy."""
    if "SIGKILL" in reason:
        reason += " (the kernel does this when memory runs out: a lower train.micro_tokens needs less)"
    if log:
        reason += f"; the log is {log}"
    checkpoint = latest_checkpoint(job.store, job.spec.run, job.phase)
    resume = f"step {checkpoint.step:,}" if checkpoint else "the start of the phase"
    return RanksDiedError(
        f"training of phase {job.phase} ended early: {reason}; run again to resume from {resume}", reason
    )
