"""Registry of decoding strategies: construction from the settings of a spec, and identity of the samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass
from types import ModuleType
from typing import TYPE_CHECKING

from mcvrp.tasks.support.registry import Registry

if TYPE_CHECKING:
    from mcvrp.model.strategies import Strategy

Identity = tuple[str | int | float | None, ...]


@dataclass(frozen=True)
class Decoding:
    """Settings of all strategies; documented by the fields of the specs."""

    p: float = 0.9
    temperature: float = 1.0
    beam_width: int = 16


@dataclass(frozen=True)
class StrategyEntry:
    """Decoding strategy of a benchmark; with unlimited answers, also of `solve`.

    ``answers`` is the number of answers per instance and rotation, None if unlimited. ``identity`` are the
    settings that determine its samples, by default all of them and the number of rotations.
    """

    kind: str  # abbreviation in tables, `Strategy.kind`
    make: Callable[[Decoding], Strategy]  # imports torch
    answers: Callable[[Decoding], int | None] = lambda settings: None
    identity: Callable[[Decoding, int], Identity | None] | None = None
    text: str = ""  # description in docs/benchmark.md

    def decides(self, name: str, settings: Decoding, rotations: int) -> Identity | None:
        """Return the settings that determine the samples of the strategy ``name``."""
        if self.identity is None:
            return (name, *astuple(settings), rotations)
        return self.identity(settings, rotations)


def _strategies() -> ModuleType:
    from mcvrp.model import strategies

    return strategies


STRATEGIES = Registry(
    "strategy",
    {
        "gs": StrategyEntry(
            "GS",
            lambda settings: _strategies().Greedy(),
            lambda settings: 1,
            lambda settings, rotations: None,
            "greedy decoding",
        ),
        "ns": StrategyEntry(
            "NS",
            lambda settings: _strategies().Nucleus(settings.p, settings.temperature),
            identity=lambda settings, rotations: (settings.p, settings.temperature, rotations),
            text="best of the samples (`p`, `temperature`, `rotations`)",
        ),
        "bs": StrategyEntry(
            "BS",
            lambda settings: _strategies().Beam(settings.beam_width),
            lambda settings: settings.beam_width,
            lambda settings, rotations: ("beam", settings.beam_width),
            "best path of a beam with dominance pruning (`beam_width`; [decoding.md](decoding.md))",
        ),
    },
)


def sampling_strategies() -> tuple[str, ...]:
    """Return the names of the strategies with unlimited answers."""
    return tuple(name for name, entry in STRATEGIES.items() if entry.answers(Decoding()) is None)
