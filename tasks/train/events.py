"""Events that ranks report to the process that started them, and their form as a line of JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass

from mcvrp.model.errors import IncompleteError, McvrpError
from mcvrp.storage.training.metrics import StepMetrics


@dataclass(frozen=True)
class Preparing:
    """The local label cache of a machine has ``done`` of the phase's ``sizes`` instance sizes."""

    done: int
    sizes: int


@dataclass(frozen=True)
class Started:
    """The ranks begin after ``step`` of ``steps``."""

    step: int
    steps: int


@dataclass(frozen=True)
class Saved:
    """The checkpoint after ``step`` is in the store."""

    step: int


@dataclass(frozen=True)
class Warned:
    """Something that the user should read, such as an outage of the store."""

    message: str


@dataclass(frozen=True)
class Refused:
    """A rank ended with an error that the user can correct."""

    message: str
    exit_code: int

    @classmethod
    def by(cls, error: McvrpError) -> Refused:
        """Return the event of ``error``."""
        return cls(str(error), error.exit_code)

    def error(self) -> McvrpError:
        """Return the error with its message and exit code."""
        kind = IncompleteError if self.exit_code == IncompleteError.exit_code else McvrpError
        return kind(self.message)


RankEvent = Preparing | Started | StepMetrics | Saved | Warned | Refused
Report = Callable[[RankEvent], None]
OF_ANY_RANK = (Preparing, Refused)  # all other events are reported by rank 0 only
_KINDS: dict[str, type[RankEvent]] = {
    kind.__name__: kind for kind in (Preparing, Started, StepMetrics, Saved, Warned, Refused)
}


def encode(event: RankEvent) -> str:
    """Return ``event`` as one line of JSON."""
    return json.dumps({"event": type(event).__name__, **asdict(event)})


def decode(line: str) -> RankEvent:
    """Return the event that `encode` wrote."""
    document = json.loads(line)
    return _KINDS[document.pop("event")](**document)
