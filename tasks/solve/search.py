"""Search for a day's routes within a time limit: samples of a model with post-optimization, or a solver.

The time limit is wall-clock time. The comparison in equal time gets processor time instead, if the model ran
on the CPU, so that other load on the machine affects neither.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from mcvrp.model.canonical_form import canonical
from mcvrp.model.decoding import Decoded, Map, decode
from mcvrp.model.features import CityTable
from mcvrp.model.network import FmMcvrp
from mcvrp.model.problem import City, Instance, Solution, cost, infeasibility
from mcvrp.tasks.solve.limits import limits_text
from mcvrp.tasks.solve.spec import LOCAL_SEARCH, SolveSpec
from mcvrp.tasks.solvers.devices import decoding_map, device_text, torch_threads
from mcvrp.tasks.solvers.local_search import polish
from mcvrp.tasks.solvers.registry import SOLVERS, finishers
from mcvrp.tasks.solvers.solver import NO_LIMITS, Limits, SolverFailed
from mcvrp.tasks.solvers.strategies import STRATEGIES
from mcvrp.tasks.support.pool import Pool

_FIRST = 4  # samples of the first batch: fewer would hardly be faster
_DECODING_SHARE = 0.5  # of the time limit, if post-optimization follows
_CHUNK = 8  # samples that are improved between two checks of the clock
_LEAST_SECONDS = 0.01  # minimum time of a search


@dataclass(frozen=True)
class Routed:
    """Routes of a day and how they were found."""

    solution: Solution  # feasible and canonical, within the limits
    cost: float  # in the city's unit
    samples: int  # 0 without a model
    sampled: float | None  # cost of the best sample, None without a model
    decoding: float  # wall-clock seconds
    polishing: float  # wall-clock seconds
    fair: float  # seconds that count in a comparison at equal time: of processor time, on a GPU wall-clock
    polish: str  # post-optimization of the samples, or the search without a model
    device: str


@dataclass(frozen=True)
class Baseline:
    """Routes of the same day by HGS in equal time, or by PyVRP if HGS does not support the city."""

    label: str
    configuration: str
    solution: Solution
    cost: float
    seconds: float


def route(
    model: FmMcvrp,
    city: City,
    instance: Instance,
    spec: SolveSpec,
    *,
    rotations: int,
    start: Solution | None = None,
) -> Routed:
    """Return the routes of ``instance`` by ``model`` within the time limit of ``spec``.

    The model decodes in ``rotations`` of the city, 1 if it was trained without. Routes to ``start`` from
    compete with the samples. Raises SolverFailed if no routes within the limits were found.
    """
    clock = _SearchClock(on_cpu=model.output.weight.device.type == "cpu")
    costs: list[float] = []
    best = {start.in_order: cost(city, start)} if start else dict[Solution, float]()  # distinct solutions
    # torch threads are for a network that is too large to share with other processes
    with torch_threads(spec.threads), Pool(spec.threads) as pool, decoding_map(model, pool) as mapped:
        for decoded in _batches(model, city, instance, spec, rotations, mapped):
            costs += decoded.costs.tolist()
            for sample in range(len(decoded.costs)):
                best.setdefault(decoded.solution(sample).in_order, float(decoded.costs[sample]))
        device = device_text(model, pool)
        clock.children = pool.children_seconds
    decoding = clock.seconds()
    # samples that violate a limit come last: they are starts of a search, but not answers
    samples = sorted(best, key=lambda each: (bool(spec.limits.broken(city, each)), best[each]))
    polished = _polished(city, instance, samples, spec, spec.time_limit - decoding, clock.share())
    solution = cheapest(city, instance, [samples[0], *polished], spec)
    total, price = clock.seconds(), cost(city, solution)
    times = decoding, total - decoding, clock.fair()
    return Routed(solution, price, len(costs), min(costs), *times, spec.polish, device)


def searched(city: City, instance: Instance, spec: SolveSpec, start: Solution | None = None) -> Routed:
    """Return the routes of a search without a model, from ``start`` if given; SolverFailed if it has none."""
    name = spec.polish if spec.polish in finishers() else usual_search(city)
    clock = _SearchClock(on_cpu=True)
    search = SOLVERS[name].search(time_limit=spec.time_limit, **spec.limits.given)
    starts = [start] if start else []
    try:
        answers = [search.search(city, instance, spec.seed, starts)]
    except SolverFailed:
        if not spec.limits.given:
            raise
        answers = []  # the start may be within them
    solution = cheapest(city, instance, [*answers, *starts], spec)
    price, seconds, fair = cost(city, solution), clock.seconds(), clock.fair()
    return Routed(solution, price, 0, None, 0.0, seconds, fair, name, search.device)


def usual_search(city: City) -> str:
    """Return the default search: HGS if costs are symmetric, otherwise PyVRP."""
    return "hgs" if city.symmetric else "pyvrp"


def baseline(
    city: City, instance: Instance, seconds: float, seed: int, limits: Limits = NO_LIMITS
) -> Baseline:
    """Return the routes of the default search from scratch in ``seconds`` of processor time."""
    entry = SOLVERS[usual_search(city)]
    search = entry.search(time_limit=max(seconds, _LEAST_SECONDS), **limits.given)
    began = time.perf_counter()
    solution = canonical(city, search.search(city, instance, seed))
    seconds = time.perf_counter() - began
    return Baseline(search.label, search.configuration, solution, cost(city, solution), seconds)


def _batches(
    model: FmMcvrp, city: City, instance: Instance, spec: SolveSpec, rotations: int, mapped: Map
) -> Iterator[Decoded]:
    """Yield batches of samples, at least one, until ``spec.samples`` are drawn or the time is used up."""
    seconds = spec.time_limit * (1.0 if spec.polish == "none" else _DECODING_SHARE)
    strategy = STRATEGIES[spec.strategy].make(spec.decoding)
    table = CityTable.of(city, model.output.weight.device)
    began = time.perf_counter()
    done, size = 0, min(_FIRST, spec.samples)
    while size > 0:
        start = time.perf_counter()
        yield decode(
            model,
            city,
            [instance],
            strategy=strategy,
            samples=size,
            first=done,
            rotations=rotations,
            seed=spec.seed,
            table=table,
            mapped=mapped,
        )[0]
        done += size
        now = time.perf_counter()
        # larger batches take less time per sample, so the estimate from this one is safe
        fitting = (seconds - (now - began)) * size / (now - start)
        size = min(int(fitting), spec.samples - done)


def _polished(
    city: City, instance: Instance, samples: list[Solution], spec: SolveSpec, seconds: float, share: float
) -> list[Solution]:
    """Return improved ``samples``, the cheapest of which come first, in ``seconds`` of wall-clock time.

    Searches count processor time, so they get the ``share`` of it that this process has had so far.
    """
    if spec.polish == "none" or instance.n == 1:  # one customer has one route
        return []
    if spec.polish == LOCAL_SEARCH:
        until = time.perf_counter() + seconds
        improved: list[Solution] = []
        for start in range(0, len(samples), _CHUNK):
            if time.perf_counter() > until:
                break
            improved += polish(city, instance, samples[start : start + _CHUNK])
        return improved
    if seconds < _LEAST_SECONDS:
        return []
    finisher = SOLVERS[spec.polish]
    with contextlib.suppress(SolverFailed):  # then the samples are the answer
        search = finisher.search(time_limit=max(seconds * share, _LEAST_SECONDS), **spec.limits.given)
        return [search.search(city, instance, spec.seed, samples[: finisher.starts])]
    return []


def cheapest(city: City, instance: Instance, solutions: list[Solution], spec: SolveSpec) -> Solution:
    """Return the cheapest feasible one of ``solutions`` within the limits; SolverFailed if there is none."""
    wrong = [infeasibility(instance, solution) for solution in solutions]
    if solutions and all(wrong):
        raise SolverFailed(f"the routes are infeasible ({wrong[0]}): use another model or solver")
    feasible = [solution for solution, reason in zip(solutions, wrong, strict=True) if reason is None]
    within = [solution for solution in feasible if spec.limits.broken(city, solution) is None]
    if not within:
        raise SolverFailed(
            f"no routes within {limits_text(spec.limits)} were found in {spec.time_limit:g} s: increase "
            "--time-limit or the limit"
        )
    return canonical(city, min(within, key=lambda solution: cost(city, solution)))


@dataclass
class _SearchClock:
    """Wall-clock time, and the time that counts in a comparison at equal time."""

    on_cpu: bool
    children: float = 0.0  # processor time of child processes
    _wall: float = field(default_factory=time.perf_counter, init=False)
    _processor: float = field(default_factory=time.process_time, init=False)

    def seconds(self) -> float:
        return time.perf_counter() - self._wall

    def share(self) -> float:
        """Return processor time per wall-clock time so far, at most 1; it is less on a busy machine."""
        return min(1.0, self.fair() / self.seconds())

    def fair(self) -> float:
        return time.process_time() - self._processor + self.children if self.on_cpu else self.seconds()
