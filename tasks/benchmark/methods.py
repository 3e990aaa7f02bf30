"""Registry of methods: how each row of a benchmark is computed, and what determines its answers.

Every solver is a method, and every decoding strategy (`fm-` and its name). A search with a time limit is
another in equal time, with settings for the size and the time; HGS with its own is one more. The other
methods are registered here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Literal

from mcvrp.tasks.solvers.registry import SOLVERS, takers
from mcvrp.tasks.solvers.strategies import STRATEGIES, Decoding, Identity, StrategyEntry
from mcvrp.tasks.support.registry import Registry

if TYPE_CHECKING:
    from mcvrp.tasks.benchmark.spec import BenchmarkSpec
    from mcvrp.tasks.solvers.fm_mcvrp import FmMcvrpSolver
    from mcvrp.tasks.solvers.solver import Solver

EQUAL_TIME = "equal time"  # in labels, where a row has its seconds


@dataclass(frozen=True)
class Method:
    """Method of a benchmark: one row of the tables per size and number of samples.

    The identity, given the settings and the number of rotations, is everything but the model that determines
    the samples. An ``equal_time`` method has a row per time limit of that name.
    """

    label: str  # in tables
    samples: Callable[[BenchmarkSpec], tuple[int, ...]]  # of its rows, ascending
    network: Literal["fm", "am"] | None = None  # decodes: the model, or the attention models
    program: str | None = None  # registered name of the solver that runs
    equal_time: bool = False
    tuned: bool = False  # settings of the program for the size and the time limit, if it has one
    alone: Callable[[], Solver] | None = None  # solver that needs neither network nor program
    alone_seconds: Callable[[int], float] | None = None  # of one run of it, by size
    decoder: Callable[[BenchmarkSpec, FmMcvrpSolver], Solver] | None = None  # None: the sampler itself
    identity: Callable[[BenchmarkSpec, int], Identity | None] | None = None
    settings: Callable[[], str] | None = None  # name and version of another program that it uses
    specs: Callable[[BenchmarkSpec], Iterable[BenchmarkSpec]] = lambda spec: (spec,)  # of its blocks
    text: str = ""  # description in docs/benchmark.md

    def label_in(self, spec: BenchmarkSpec) -> str:
        """Return the label of the rows of ``spec``, which has a single ``equal_time``: "HGS (0.05 s)"."""
        return self.label.replace(EQUAL_TIME, f"{spec.equal_time:g} s") if self.equal_time else self.label

    @property
    def from_scratch(self) -> bool:
        """True if no network decodes: each sample is a run with its own seed."""
        return self.network is None


def _solver(name: str) -> Method:
    entry, tuned = SOLVERS[name], name != "hgs"  # HGS-CVRP's own settings are a row
    return Method(
        entry.label, lambda spec: spec.heuristic_samples, program=name, tuned=tuned, text=entry.text
    )


def _nucleus(settings: Decoding, rotations: int) -> Identity:
    return STRATEGIES["ns"].decides("ns", settings, rotations) or ()


def _strategy(name: str, entry: StrategyEntry) -> Method:
    """Return the method that decodes with a strategy; beam search does not rotate the city.

    The answers of a narrow beam are no prefix of a wide one's, so each number of answers has a block.
    """

    def specs(spec: BenchmarkSpec) -> Iterable[BenchmarkSpec]:
        return {entry.answers(beam.decoding): beam for beam in spec.each("beam_width")}.values()

    def samples(spec: BenchmarkSpec) -> tuple[int, ...]:
        answers = [entry.answers(beam.decoding) for beam in specs(spec)]
        return tuple(count for count in answers if count) or spec.samples

    def decoder(spec: BenchmarkSpec, sampler: FmMcvrpSolver) -> Solver:
        strategy = entry.make(spec.decoding)
        return replace(sampler, strategy=strategy, rotations=sampler.rotations if strategy.width == 1 else 1)

    return Method(
        f"FM-MCVRP ({entry.kind})",
        samples,
        "fm",
        decoder=decoder,
        identity=lambda spec, rotations: entry.decides(name, spec.decoding, rotations),
        specs=specs,
        text=entry.text,
    )


def _equal_time(name: str, *, tuned: bool = True) -> Method:
    label = SOLVERS[name].label
    return Method(
        f"{label} ({'' if tuned else 'own settings, '}{EQUAL_TIME})",
        lambda spec: (1,),
        program=name,
        equal_time=True,
        tuned=tuned,
        specs=lambda spec: spec.each("equal_time"),
        text=f"one run of {label} for `equal_time` seconds, with {'tuned' if tuned else 'its own'} settings",
    )


def _polished(spec: BenchmarkSpec, sampler: FmMcvrpSolver) -> Solver:
    from mcvrp.tasks.solvers.local_search import Polished

    return Polished(replace(sampler, strategy=STRATEGIES["ns"].make(spec.polished_decoding)))


def _random_starts() -> Solver:
    from mcvrp.tasks.solvers.local_search import RandomStarts

    return RandomStarts()


OTHERS = Registry(
    "method",
    {
        "fm-ls": Method(
            "FM-MCVRP (NS) + local search",
            lambda spec: spec.samples,
            "fm",
            decoder=_polished,
            identity=lambda spec, rotations: (*_nucleus(spec.polished_decoding, rotations), "local search"),
            settings=lambda: f"pyvrp {version('pyvrp')}",
            text="PyVRP's local search of each sample (`polish_temperature`)",
        ),
        "random-ls": Method(
            "Random solutions + local search",
            lambda spec: spec.samples,
            alone=_random_starts,
            alone_seconds=lambda n: 3e-4 * (n / 20) ** 1.5,  # about 0.3 ms at n = 20, 10 ms at 200
            text="the same local search of random solutions, as a control for `fm-ls`",
        ),
    },
)
register = OTHERS.register
_ATTENTION = "the attention model (Kool et al. 2019), one network per size, trained by `mcvrp am`"


def all_methods() -> dict[str, Method]:
    """Return all methods by name, in display order."""
    return {
        **{name: _solver(name) for name in SOLVERS},
        "am": Method("AM (VS)", lambda spec: spec.samples, "am", text=_ATTENTION),
        **{f"fm-{name}": _strategy(name, entry) for name, entry in STRATEGIES.items()},
        **OTHERS,
        **{f"{name}-equal": _equal_time(name) for name in takers("time_limit")},
        "hgs-own-equal": _equal_time("hgs", tuned=False),
    }
