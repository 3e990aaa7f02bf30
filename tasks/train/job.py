"""Job of the ranks of a training phase: what each is told, and what they report back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from mcvrp.model.errors import IncompleteError, McvrpError
from mcvrp.model.instances import Rules
from mcvrp.model.problem import City
from mcvrp.storage.store.lease import Lease
from mcvrp.storage.store.store import Store
from mcvrp.storage.training.checkpoints import CheckpointState, Origin, latest_checkpoint
from mcvrp.tasks.train.spec import TrainSpec

# A report is a flat document with "event": "preparing" (done, sizes), "started" (step, steps),
# "step" (a row of metrics), "saved" (step), "waiting" (message: for what), or "refused"
# (message, exit_code: an error that a user can correct), "warning" (message). Those of `OF_ANY_RANK`
# come from every rank, the others from rank 0.
Report = Callable[[Mapping[str, Any]], None]
OF_ANY_RANK = ("preparing", "refused")


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
    cache
        Folder for the labels as each machine keeps them.
    lease
        That this trainer holds: ranks confirm it before they save.
    rules
        Ranges of demand and capacity of instances that are drawn, in a phase by policy.
    ends_at
        When the job has to be over, in seconds since 1970; None lets it run.
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
    cache: str
    lease: Lease
    rules: Rules = field(default_factory=Rules)
    ends_at: float | None = None

    def for_ranks(self) -> RankJob:
        """Return the job with an impatient store: ranks wait in their loop, and report what they wait for."""
        return replace(self, store=self.store.outlasting(0))

    @property
    def resumed(self) -> CheckpointState | None:
        """The checkpoint of this very phase to go on from, if there is one."""
        return self.start if self.start is not None and self.start.phase == self.phase else None


class RanksDiedError(IncompleteError):
    """Ranks ended without a sentence for the user, by a signal, with their node, ...: ``reason``."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


def ranks_died(job: RankJob, reason: str, log: str = "") -> RanksDiedError:
    """Return the error that says why, where the phase stands now, and what may help."""
    if "SIGKILL" in reason:
        reason += " (the kernel does this when memory runs out: a lower train.micro_tokens needs less)"
    if log:
        reason += f"; the log is {log}"
    saved = latest_checkpoint(job.store, job.spec.run, job.phase)
    return RanksDiedError(
        f"training of phase {job.phase} ended early: {reason}; "
        f"run again to go on from {f'step {saved.step:,}' if saved else 'the start of the phase'}",
        reason,
    )


def refused(error: McvrpError) -> Mapping[str, Any]:
    """Return the report of an error that a user can correct."""
    return {"event": "refused", "message": str(error), "exit_code": error.exit_code}


def refusal(event: Mapping[str, Any]) -> McvrpError | None:
    """Return the error that the report ``event`` is of, if it is of one."""
    if event["event"] != "refused":
        return None
    kind = IncompleteError if event["exit_code"] == IncompleteError.exit_code else McvrpError
    return kind(event["message"])
