"""Registry of methods: what each row of a benchmark is made of, and what decides its answers.

Every solver is a method, every decoding strategy is one (`fm-` and its name), and so is every solver that
can go on from solutions, twice: from nothing and from a network's samples, in equal time. The others are
written down here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Literal

from mcvrp.tasks.solvers.registry import SOLVERS, finishers
from mcvrp.tasks.solvers.strategies import STRATEGIES, Decoding, Identity, StrategyEntry
from mcvrp.tasks.support.registry import Registry

if TYPE_CHECKING:
    from mcvrp.tasks.benchmark.spec import BenchmarkSpec
    from mcvrp.tasks.solvers.fm_mcvrp import FmMcvrpSolver
    from mcvrp.tasks.solvers.solver import Solver


@dataclass(frozen=True)
class Method:
    """A method of a benchmark: a row of its tables for each number of samples.

    Parameters
    ----------
    label
        Name in tables.
    samples
        The numbers of samples of its rows, ascending.
    network
        What decodes: "fm" the model, "am" the attention models; None: nothing does.
    program
        The solver, by its name in the registry, that answers, or goes on from the network's samples.
    equal_time
        Whether it has the spec's ``equal_time``, decoding included, in place of a budget of its own.
    alone
        Makes its solver where it needs neither network nor program; a run of it takes ``alone_seconds``.
    decoder
        Makes its solver of the model as it samples; None takes that.
    identity
        What decides its samples beside the model, of the spec and the number of rotations.
    settings
        Program and version that it uses beside ``program``.
    paths
        How many solutions of an instance are decoded, for estimates; None: each number of samples anew.
    """

    label: str
    samples: Callable[[BenchmarkSpec], tuple[int, ...]]
    network: Literal["fm", "am"] | None = None
    program: str | None = None
    equal_time: bool = False
    alone: Callable[[], Solver] | None = None
    alone_seconds: Callable[[int], float] | None = None
    decoder: Callable[[BenchmarkSpec, FmMcvrpSolver], Solver] | None = None
    identity: Callable[[BenchmarkSpec, int], Identity | None] | None = None
    settings: Callable[[], str] | None = None
    paths: Callable[[BenchmarkSpec], int] | None = None

    @property
    def decoded(self) -> bool:
        """True where the model alone answers, no program."""
        return self.network == "fm" and self.program is None

    @property
    def warm_started(self) -> bool:
        """True where a program goes on from the model's samples."""
        return self.network == "fm" and self.program is not None

    @property
    def grows(self) -> bool:
        """True where a sample is a run with a seed of its own."""
        return self.network is None


def _samples(spec: BenchmarkSpec) -> tuple[int, ...]:
    return spec.samples


def _all_samples(spec: BenchmarkSpec) -> tuple[int, ...]:
    return spec.samples[-1:]  # what goes on from samples does so from all of them


def _solver(name: str) -> Method:
    """Return the method that runs a solver; the spec may have numbers of runs for it alone."""

    def runs(spec: BenchmarkSpec) -> tuple[int, ...]:
        return getattr(spec, f"{name}_samples", None) or spec.heuristic_samples

    return Method(SOLVERS[name].label, runs, program=name)


def _one(spec: BenchmarkSpec) -> tuple[int, ...]:
    return (1,)


def _nucleus(settings: Decoding, rotations: int) -> Identity:
    return STRATEGIES["ns"].decides("ns", settings, rotations) or ()


def _strategy(name: str, entry: StrategyEntry) -> Method:
    """Return the method that decodes by a strategy; beams see the city as it is."""

    def samples(spec: BenchmarkSpec) -> tuple[int, ...]:
        answers = entry.answers(spec.decoding)
        return spec.samples if answers is None else (answers,)

    def decoder(spec: BenchmarkSpec, sampler: FmMcvrpSolver) -> Solver:
        strategy = entry.make(spec.decoding)
        return replace(sampler, strategy=strategy, rotations=sampler.rotations if strategy.width == 1 else 1)

    def identity(spec: BenchmarkSpec, rotations: int) -> Identity | None:
        return entry.decides(name, spec.decoding, rotations)

    return Method(f"FM-MCVRP ({entry.kind})", samples, "fm", decoder=decoder, identity=identity)


def _warm_started(name: str) -> Method:
    starts = SOLVERS[name].starts
    marks = ("warm start", starts) if starts > 1 else ("warm start",)
    return Method(
        f"FM-MCVRP (NS) + {SOLVERS[name].label} (equal time)",
        _all_samples,
        "fm",
        name,
        equal_time=True,
        identity=lambda spec, rotations: (*_nucleus(spec.decoding, rotations), *marks),
    )


def _polished(spec: BenchmarkSpec, sampler: FmMcvrpSolver) -> Solver:
    from mcvrp.tasks.solvers.local_search import Polished

    return Polished(replace(sampler, strategy=STRATEGIES["ns"].make(spec.polished_decoding)))


def _random_starts() -> Solver:
    from mcvrp.tasks.solvers.local_search import RandomStarts

    return RandomStarts()


def _random_start_seconds(n: int) -> float:
    """Return about how long a random solution and its local search take: 0.3 ms at n = 20, 10 ms at 200."""
    return 3e-4 * (n / 20) ** 1.5


def _reconstructed(spec: BenchmarkSpec, sampler: FmMcvrpSolver) -> Solver:
    from mcvrp.tasks.solvers.reconstruction import Reconstructed

    return Reconstructed(sampler, spec.rounds, spec.part_customers, spec.part_samples)


ATTENTION = Method("AM (VS)", _samples, "am")
OTHERS = Registry(
    "method",
    {
        "fm-ls": Method(
            "FM-MCVRP (NS) + local search",
            _samples,
            "fm",
            decoder=_polished,
            identity=lambda spec, rotations: (*_nucleus(spec.polished_decoding, rotations), "local search"),
            settings=lambda: f"pyvrp {version('pyvrp')}",
        ),
        "random-ls": Method(
            "Random solutions + local search",
            _samples,
            alone=_random_starts,
            alone_seconds=_random_start_seconds,
        ),
        "fm-rrc": Method(
            "FM-MCVRP (NS) + re-construction",
            _all_samples,
            "fm",
            decoder=_reconstructed,
            identity=lambda spec, rotations: (
                *_nucleus(spec.decoding, rotations),
                "re-construction",
                *(spec.rounds, spec.part_customers, spec.part_samples),
            ),
            # a round's parts are the whole at most
            paths=lambda spec: spec.samples[-1] + spec.rounds * spec.part_samples,
        ),
    },
)
register = OTHERS.register


def all_methods() -> dict[str, Method]:
    """Return all methods by their names, in the order of lists."""
    timed = [name for name in finishers() if "time_limit" in SOLVERS[name].takes]
    return {
        **{name: _solver(name) for name in SOLVERS},
        "am": ATTENTION,
        **{f"fm-{name}": _strategy(name, entry) for name, entry in STRATEGIES.items()},
        **OTHERS,
        **{
            f"{name}-equal": Method(
                f"{SOLVERS[name].label} (equal time)", _one, program=name, equal_time=True
            )
            for name in timed
        },
        **{f"fm-{name}": _warm_started(name) for name in timed},
    }
