"""Registry of decoding strategies: construction from the settings of a spec, and identity of the samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING

from mcvrp.tasks.support.registry import Registry

if TYPE_CHECKING:
    from mcvrp.model.strategies import Strategy

Identity = tuple[str | int | float | None, ...]


@dataclass(frozen=True)
class Decoding:
    """Settings of all strategies; documented by the fields of the specs."""

    p: float = 0.9
    top_k: int | None = None
    temperature: float = 1.0
    beam_width: int = 16


def _any_number(settings: Decoding) -> None:
    return None


@dataclass(frozen=True)
class StrategyEntry:
    """Decoding strategy of a benchmark; with unlimited answers, also of `solve`.

    Parameters
    ----------
    kind
        Abbreviation in tables, `Strategy.kind`.
    make
        Constructor of the strategy, which imports torch.
    answers
        Number of answers per instance and rotation; None: unlimited.
    identity
        Settings that determine its samples; default: all of them and the number of rotations.
    """

    kind: str
    make: Callable[[Decoding], Strategy]
    answers: Callable[[Decoding], int | None] = _any_number
    identity: Callable[[Decoding, int], Identity | None] | None = None

    def decides(self, name: str, settings: Decoding, rotations: int) -> Identity | None:
        """Return the settings that determine the samples of the strategy ``name``."""
        if self.identity is None:
            return (name, *astuple(settings), rotations)
        return self.identity(settings, rotations)


def _greedy(settings: Decoding) -> Strategy:
    from mcvrp.model.strategies import Greedy

    return Greedy()


def _nucleus(settings: Decoding) -> Strategy:
    from mcvrp.model.strategies import Nucleus

    return Nucleus(settings.p, settings.top_k, settings.temperature)


def _beam(settings: Decoding) -> Strategy:
    from mcvrp.model.strategies import Beam

    return Beam(settings.beam_width)


def nucleus_identity(settings: Decoding, rotations: int) -> Identity:
    """Return the settings that determine the samples; neutral ones are left out, as in older results."""
    more = (settings.top_k, settings.temperature)
    return (settings.p, rotations, *(more if more != (None, 1.0) else ()))


STRATEGIES = Registry(
    "strategy",
    {
        "gs": StrategyEntry("GS", _greedy, lambda settings: 1, lambda settings, rotations: None),
        "ns": StrategyEntry("NS", _nucleus, identity=nucleus_identity),
        "bs": StrategyEntry(
            "BS",
            _beam,
            lambda settings: settings.beam_width,
            lambda settings, rotations: ("beam", settings.beam_width, "dominance"),
        ),
    },
)


def sampling_strategies() -> tuple[str, ...]:
    """Return the names of the strategies with unlimited answers."""
    return tuple(name for name, entry in STRATEGIES.items() if entry.answers(Decoding()) is None)
