"""Job of the ranks of a training phase: all that they need to know, their events, the error if they die."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import get_args

from mcvrp.model.errors import IncompleteError, McvrpError
from mcvrp.model.instances import Rules
from mcvrp.model.problem import City
from mcvrp.storage.models.models import ModelCard, model_weights
from mcvrp.storage.provenance import Provenance
from mcvrp.storage.store.lease import Lease
from mcvrp.storage.store.store import Store
from mcvrp.storage.training.checkpoints import (
    Arrays,
    CheckpointState,
    Origin,
    latest_checkpoint,
    load_weights,
)
from mcvrp.storage.training.metrics import StepMetrics
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
    # Has the initial weights: of this phase, the last of the previous one, or the base; None: random weights.
    start: CheckpointState | ModelCard | None
    ranks: int
    cores: int  # shared by all ranks of one machine
    cache: Path  # folder of each machine for its copy of the labels
    # Held by the process that started the ranks; rank 0 confirms it before it saves.
    lease: Lease
    rules: Rules = field(default_factory=Rules)  # of the instances of a policy-gradient phase
    provenance: Provenance | None = None  # recorded in the checkpoints, too

    @property
    def resumed(self) -> CheckpointState | None:
        """The checkpoint of this very phase to resume from, if there is one."""
        start = self.start
        return start if isinstance(start, CheckpointState) and start.phase == self.phase else None

    def initial_weights(self) -> Arrays | None:
        """Return the weights of `start` by parameter name; McvrpError if they are corrupt."""
        if isinstance(self.start, ModelCard):
            return model_weights(self.store, self.start)
        return load_weights(self.store, self.start) if self.start else None


@dataclass(frozen=True)
class Started:
    """The ranks begin after ``step`` of ``steps``."""

    step: int
    steps: int


@dataclass(frozen=True)
class Warned:
    """Something that the user should read, such as an outage of the store."""

    message: str


@dataclass(frozen=True)
class Refused:
    """A rank ended with an error that the user can correct."""

    message: str
    exit_code: int

    def error(self) -> McvrpError:
        """Return the error with its message and exit code."""
        kind = IncompleteError if self.exit_code == IncompleteError.exit_code else McvrpError
        return kind(self.message)


RankEvent = Started | StepMetrics | Warned | Refused
Report = Callable[[RankEvent], None]


def encode(event: RankEvent) -> str:
    """Return ``event`` as one line of JSON."""
    return json.dumps({"event": type(event).__name__, **asdict(event)})


def decode(line: str) -> RankEvent:
    """Return the event that `encode` wrote."""
    document = json.loads(line)
    kinds = {kind.__name__: kind for kind in get_args(RankEvent)}
    return kinds[document.pop("event")](**document)


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
