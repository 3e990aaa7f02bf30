"""A day's orders to routes within a time limit: samples of a model, polished, or a search without one.

Samples are drawn in growing portions. Knows instances and models, neither files of orders nor what is
written about the routes. The clock is wall-clock; what HGS gets to be compared at equal time is processor
time, where the model ran on the CPU too, so that other work on the machine takes from neither.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from mcvrp.model.canonical_form import canonical
from mcvrp.model.decoding import Decoded, Map, decode
from mcvrp.model.errors import McvrpError
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

_FIRST = 4  # samples of the first portion: one would hardly be faster
_DECODING_SHARE = 0.5  # of the time, where polishing follows
_CHUNK = 8  # samples that are polished between two looks at the clock
_LEAST_SECONDS = 0.01  # of a search: less is no time


@dataclass(frozen=True)
class Routed:
    """The routes of a day, and how they came about.

    Parameters
    ----------
    solution
        Feasible, within the limits, and canonical.
    cost
        In the city's unit.
    samples, sampled
        How many samples were drawn within the time, and the cost of the best of them; 0 and None without
        a model.
    decoding, polishing
        Seconds of wall-clock time.
    fair
        Seconds of both that count for equal time: of processor time, on a GPU of wall-clock.
    polish
        What improved the samples, or searched without any.
    device
        What the model ran on.
    """

    solution: Solution
    cost: float
    samples: int
    sampled: float | None
    decoding: float
    polishing: float
    fair: float
    polish: str
    device: str


@dataclass(frozen=True)
class Baseline:
    """Routes of the same day by HGS, or PyVRP where HGS cannot, in equal time."""

    label: str
    configuration: str
    solution: Solution
    cost: float
    seconds: float

    def gap(self, routed: Routed) -> float:
        """Return by how many per cent the routes cost more than the baseline's."""
        return 100 * (routed.cost - self.cost) / self.cost if self.cost else 0.0


def route(
    model: FmMcvrp,
    city: City,
    instance: Instance,
    spec: SolveSpec,
    *,
    rotations: int,
    start: Solution | None = None,
) -> Routed:
    """Return the routes of ``instance``, within the time limit of ``spec``.

    Parameters
    ----------
    model
        In evaluation mode, on the device to use.
    rotations
        Ways that samples see the city turned; 1 where the model was trained without rotation.
    start
        Routes of the instance that stand beside the samples.

    Raises
    ------
    McvrpError
        If the model does not know the city.
    SolverFailed
        If there are limits and no routes were found that keep them.
    """
    clock = _SearchClock(on_cpu=model.output.weight.device.type == "cpu")
    share = 1.0 if spec.polish == "none" else _DECODING_SHARE
    costs: list[float] = []
    best: dict[Solution, float] = {}  # by cost, each once, the cheapest first
    if start:
        best[start.in_order] = cost(city, start)
    # threads for a network that is too large for processes to share
    with torch_threads(spec.threads), Pool(spec.threads) as pool, decoding_map(model, pool) as mapped:
        for decoded in _portions(model, city, instance, spec, rotations, spec.time_limit * share, mapped):
            costs += decoded.costs.tolist()
            for sample in range(len(decoded.costs)):
                best.setdefault(decoded.solution(sample).in_order, float(decoded.costs[sample]))
        device = device_text(model, pool)
        clock.children = pool.children_seconds
    # those that break a limit are no answers, but starts
    samples = sorted(best, key=lambda solution: (bool(spec.limits.broken(city, solution)), best[solution]))
    decoding = clock.seconds()
    polished = _polished(city, instance, samples, spec, spec.time_limit - decoding, clock.share())
    found = [s for s in (samples[0], *polished) if infeasibility(instance, s) is None]
    if not found:  # feasible by construction, and checked again
        raise McvrpError(
            f"the model's routes are wrong ({infeasibility(instance, samples[0])}): name another model"
        )
    solution = canonical(city, _cheapest(city, found, spec))
    return Routed(
        solution=solution,
        cost=cost(city, solution),
        samples=len(costs),
        sampled=min(costs),
        decoding=decoding,
        polishing=clock.seconds() - decoding,
        fair=clock.fair(),
        polish=spec.polish,
        device=device,
    )


def searched(city: City, instance: Instance, spec: SolveSpec, start: Solution | None = None) -> Routed:
    """Return the routes of ``instance`` by the search that ``spec`` names, from ``start`` or from nothing.

    Raises
    ------
    SolverFailed
        If it ends without an answer.
    """
    name = spec.polish if spec.polish in finishers() else usual_search(city)
    clock = _SearchClock(on_cpu=True)
    search = SOLVERS[name].search(time_limit=spec.time_limit, **spec.limits.given)
    starts = [start] if start else []
    try:
        found = [search.search(city, instance, spec.seed, starts)]
    except SolverFailed:
        if not spec.limits.given:
            raise
        found = []  # the start may keep them
    if found and (wrong := infeasibility(instance, found[0])):
        raise SolverFailed(f"the routes of {search.label} are wrong: {wrong}")
    solution = canonical(city, _cheapest(city, [*found, *starts], spec))
    price, seconds, fair = cost(city, solution), clock.seconds(), clock.fair()
    return Routed(solution, price, 0, None, 0.0, seconds, fair, name, search.device)


def usual_search(city: City) -> str:
    """Return who searches from nothing: HGS where costs are symmetric, else PyVRP."""
    return "hgs" if city.symmetric else "pyvrp"


def baseline(
    city: City, instance: Instance, seconds: float, seed: int, limits: Limits = NO_LIMITS
) -> Baseline:
    """Return what a search from nothing makes of ``instance`` in ``seconds`` of processor time."""
    entry = SOLVERS[usual_search(city)]
    search = entry.search(time_limit=max(seconds, _LEAST_SECONDS), **limits.given)
    began = time.perf_counter()
    solution = canonical(city, search.search(city, instance, seed))
    seconds = time.perf_counter() - began
    return Baseline(search.label, search.configuration, solution, cost(city, solution), seconds)


def _portions(
    model: FmMcvrp,
    city: City,
    instance: Instance,
    spec: SolveSpec,
    rotations: int,
    seconds: float,
    mapped: Map,
) -> Iterator[Decoded]:
    """Yield samples until ``spec.samples`` are there or another would take too long; a few at least."""
    strategy = STRATEGIES[spec.strategy].make(spec.decoding)
    table = CityTable.of(city, model.output.weight.device)
    began = time.perf_counter()
    done, portion = 0, min(_FIRST, spec.samples)
    while portion > 0:
        start = time.perf_counter()
        yield decode(
            model,
            city,
            [instance],
            strategy=strategy,
            samples=portion,
            first=done,
            rotations=rotations,
            seed=spec.seed,
            table=table,
            mapped=mapped,
        )[0]
        done += portion
        now = time.perf_counter()
        # more at once take less each, so that what fits by this portion's pace does fit
        fitting = (seconds - (now - began)) * portion / (now - start)
        portion = min(int(fitting), spec.samples - done)


def _polished(
    city: City, instance: Instance, samples: list[Solution], spec: SolveSpec, seconds: float, share: float
) -> list[Solution]:
    """Return what polishing makes of ``samples``, the cheapest first, in ``seconds`` of wall-clock time.

    Searches count processor time: of a second they are given the ``share`` that this process gets.
    """
    if spec.polish == "none" or instance.n == 1:  # one customer has one route
        return []
    if spec.polish == LOCAL_SEARCH:
        until = time.perf_counter() + seconds
        found: list[Solution] = []
        for start in range(0, len(samples), _CHUNK):
            if time.perf_counter() > until:
                break
            found += polish(city, instance, samples[start : start + _CHUNK])
        return found
    if seconds < _LEAST_SECONDS:
        return []
    finisher = SOLVERS[spec.polish]
    with contextlib.suppress(SolverFailed):  # then the samples stand
        search = finisher.search(time_limit=max(seconds * share, _LEAST_SECONDS), **spec.limits.given)
        return [search.search(city, instance, spec.seed, samples[: finisher.starts])]
    return []


def _cheapest(city: City, found: list[Solution], spec: SolveSpec) -> Solution:
    """Return the cheapest of ``found`` that keeps the limits; SolverFailed where none does."""
    within = [solution for solution in found if spec.limits.broken(city, solution) is None]
    if not within:
        raise SolverFailed(
            f"no routes that keep {limits_text(spec.limits)} were found in {spec.time_limit:g} s: "
            "give more time (--time-limit) or a wider limit"
        )
    return min(within, key=lambda solution: cost(city, solution))


@dataclass
class _SearchClock:
    """Wall-clock time, and the time that counts for a fair comparison."""

    on_cpu: bool
    children: float = 0.0  # seconds of processor time of other processes
    _wall: float = field(default_factory=time.perf_counter, init=False)
    _processor: float = field(default_factory=time.process_time, init=False)

    def seconds(self) -> float:
        return time.perf_counter() - self._wall

    def share(self) -> float:
        """Return how much processor time a second has had so far, at most 1: less on a busy machine."""
        return min(1.0, self.fair() / self.seconds())

    def fair(self) -> float:
        return time.process_time() - self._processor + self.children if self.on_cpu else self.seconds()
