"""Members of the portfolio that routes a day: programs that search beside each other and send what they find.

A search runs in slices of growing length, each from the best routes so far: what it has found is known early,
and it can be ended at any time. Slices cost HGS little (BENCHMARKS.md). A member begins without
torch unless it decodes a model.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np

from mcvrp.model.problem import City, Instance, Solution, cost
from mcvrp.tasks.solvers.registry import SOLVERS, SolverEntry
from mcvrp.tasks.solvers.solver import Limits, SolverFailed
from mcvrp.tasks.support.processes import parent, receive, send

if TYPE_CHECKING:
    from mcvrp.model.decoding import Decoded, Map
    from mcvrp.model.network import FmMcvrp
    from mcvrp.storage.store.store import Store
    from mcvrp.tasks.solve.spec import SolveSpec

_FIRST_SLICE, _SLICE_A_CUSTOMER = 0.1, 1e-3  # seconds of the first slice: at least, and per customer
_LEAST_SECONDS = 0.02  # a shorter slice would find nothing
_SEEDS = 1000  # between the seeds of two members
_NOTHING = (True, math.inf)  # the rank of no solution
_BATCH = 4  # samples of the first batch: fewer would hardly be faster
_DECODING_SHARE = 0.5  # of the model's time; the rest is for local search
_CHUNK = 8  # samples that are improved between two checks of the clock


@dataclass(frozen=True)
class Found:
    """Routes that a member found, which cost less than all of its earlier ones.

    Without routes, a search reports that its first slice has found none that cost less than its starts.
    """

    by: str  # label of the member
    solution: Solution | None
    samples: int = 0  # of a model, so far
    sampled: float | None = None  # cost of the best sample, before local search


class Member(Protocol):
    """A member: its name in tables, and what it sends until ``until``, by `time.monotonic`."""

    @property
    def label(self) -> str: ...

    def found(self, until: float) -> Iterator[Found]: ...


@dataclass(frozen=True)
class SearchMember:
    """A solver that searches, from ``starts`` if there are any; it has the day's nodes only, see `of`."""

    entry: SolverEntry
    city: City  # of the day's nodes: all of a large city's costs would take seconds to send
    instance: Instance  # of that city
    nodes: tuple[int, ...]  # numbers of its nodes in the whole city, in which solutions are given
    options: dict[str, Any]  # settings of the solver, and the limits
    limits: Limits
    seed: int
    label: str
    starts: tuple[Solution, ...] = ()
    largest_share: ClassVar[float] = 0.25  # of its time in one slice, which is lost if it is ended within it

    @classmethod
    def of(cls, solver: str, city: City, instance: Instance, limits: Limits, seed: int, **more: Any) -> Self:
        """Return ``solver`` for ``instance`` of ``city``; ``more``: its label and starts."""
        nodes = instance.nodes
        matrix = None if city.matrix is None else city.costs(nodes)
        small = City.framed(city.xy[nodes], matrix, unit=city.unit)
        day = Instance(small.city_id, np.arange(1, len(nodes)), instance.demands, instance.capacity)  # type: ignore[arg-type]
        if limits.service:
            service = {k: limits.service.get(node, 0.0) for k, node in enumerate(nodes.tolist())}
            limits = replace(limits, service=service)
        entry, options = SOLVERS[solver], {"tuned": True} | limits.given  # for the length of each slice
        more = {"label": entry.label} | more
        return cls(entry, small, day, tuple(nodes.tolist()), options, limits, seed, **more)

    def found(self, until: float) -> Iterator[Found]:
        """Yield improvements, slice by slice; SolverFailed if the solver ends by itself without any."""
        return self.improvements(until, self.solve_slice)

    def improvements(self, until: float, sliced: Callable[..., Solution]) -> Iterator[Found]:
        """Yield improvements of ``sliced``, which is called like `solve_slice`."""
        number = {node: k for k, node in enumerate(self.nodes)}
        given = [Solution.of([number[k] for k in route] for route in each.routes) for each in self.starts]
        archive = {solution.in_order: self.rank(solution) for solution in given}
        whole, share = max(until - time.monotonic(), _LEAST_SECONDS), 1.0
        seconds = _FIRST_SLICE + _SLICE_A_CUSTOMER * self.instance.n
        for k in count():
            span = min(seconds, whole * self.largest_share, (until - time.monotonic()) * share)
            if span < _LEAST_SECONDS and k:
                return
            began, processor = time.monotonic(), time.thread_time()
            starts = sorted(archive, key=archive.__getitem__)
            before, failure = min(archive.values(), default=_NOTHING), None
            try:
                solution = sliced(self.options | {"time_limit": max(span, _LEAST_SECONDS)}, k, starts)
                archive[solution] = self.rank(solution)
            except SolverFailed as error:
                failure = error
            spent = max(time.monotonic() - began, 1e-9)
            best = min(archive, key=archive.__getitem__, default=None)
            if best and archive[best] < before:
                routes = ([self.nodes[k] for k in route] for route in best.routes)
                yield Found(self.label, Solution.of(routes))
            elif spent < span / 2:  # it has come to an end
                if failure:
                    raise failure
                return
            elif k == 0:
                yield Found(self.label, None)
            share = min(1.0, (time.thread_time() - processor) / spent)  # others may have had a part of it
            seconds *= 2

    def solve_slice(
        self, options: dict[str, Any], k: int, starts: Sequence[Solution], day: Instance | None = None
    ) -> Solution:
        """Return routes of ``day``, by default all customers; SolverFailed without any within the limits."""
        search, seed = self.entry.search(**options), _SEEDS * self.seed + k
        return search.search(self.city, day or self.instance, seed, starts[: self.entry.starts]).in_order

    def rank(self, solution: Solution) -> tuple[bool, float]:
        """Return the order of solutions: those within the limits first, then by cost."""
        return bool(self.limits.broken(self.city, solution)), cost(self.city, solution)


@dataclass(frozen=True)
class ModelMember:
    """The samples of a model, each after local search; ``then`` searches from the best of them."""

    label: str
    store: Store
    name: str
    version: int
    city: City
    instance: Instance
    spec: SolveSpec
    rotations: int  # 1 if the model was trained without
    then: SearchMember | None = None

    def found(self, until: float) -> Iterator[Found]:
        """Yield improvements: of the samples, of local search, and of the search that follows."""
        improved: dict[Solution, float] = {}
        until_polished = until if self.then is None else (time.monotonic() + until) / 2
        yield from self._samples(self._network(), until_polished, improved)
        if self.then and improved:
            best = sorted(improved, key=improved.__getitem__)[: self.then.entry.starts]
            with contextlib.suppress(SolverFailed):  # the samples are there
                yield from replace(self.then, starts=(*best, *self.then.starts)).found(until)

    def _network(self) -> FmMcvrp:
        from mcvrp.storage.models.models import load_model

        network, _ = load_model(self.store, self.name, self.version)
        from mcvrp.tasks.solvers.devices import placed  # imports torch: damaged weights are reported at once

        return placed(network)

    def _samples(self, network: FmMcvrp, until: float, improved: dict[Solution, float]) -> Iterator[Found]:
        """Yield improvements of samples and of local search; ``improved`` gets all distinct solutions."""
        from mcvrp.tasks.solvers.devices import decoding_map, torch_threads
        from mcvrp.tasks.solvers.local_search import polish
        from mcvrp.tasks.support.pool import Pool

        least, drawn = math.inf, 0
        cores = 1 if self.then else self.spec.cores
        with torch_threads(cores), Pool(cores) as pool, decoding_map(network, pool) as mapped:
            for decoded in self._batches(network, until, mapped):
                drawn += len(decoded.costs)
                for k, price in enumerate(decoded.costs.tolist()):
                    improved.setdefault(decoded.solution(k).in_order, price)
                best = min(improved, key=improved.__getitem__)
                if improved[best] < least:
                    least = improved[best]
                    yield Found(self.label, best, drawn, least)
        samples, sampled = sorted(improved, key=improved.__getitem__), least
        for first in range(0, len(samples), _CHUNK):
            if time.monotonic() > until:
                break
            for solution in polish(self.city, self.instance, samples[first : first + _CHUNK]):
                improved[solution.in_order] = price = cost(self.city, solution)
                if price < least:
                    least = price
                    yield Found(self.label, solution, drawn, sampled)
        # the final number of samples, which may have increased since the last improvement
        yield Found(self.label, min(improved, key=improved.__getitem__), drawn, sampled)

    def _batches(self, network: FmMcvrp, until: float, mapped: Map) -> Iterator[Decoded]:
        """Yield batches of samples, at least one, until all are drawn or the time is used up."""
        from mcvrp.model.decoding import decode
        from mcvrp.tasks.solvers.strategies import STRATEGIES

        began = time.monotonic()
        seconds = (until - began) * _DECODING_SHARE
        strategy = STRATEGIES[self.spec.strategy].make(self.spec.decoding)
        table = network.table(self.city)
        done, size = 0, min(_BATCH, self.spec.samples)
        while size > 0:
            start = time.monotonic()
            yield decode(
                network,
                self.city,
                [self.instance],
                strategy=strategy,
                samples=size,
                first=done,
                rotations=self.rotations,
                seed=self.spec.seed,
                table=table,
                mapped=mapped,
            )[0]
            done += size
            now = time.monotonic()
            # larger batches take less time per sample, so the estimate from this one is safe
            fitting = (seconds - (now - began)) * size / max(now - start, 1e-9)
            size = min(int(fitting), self.spec.samples - done)


def main() -> None:
    """Send what the member that is received finds, then None, or the error that ended it."""
    connection, last = parent(), None
    try:
        member, until = receive(connection)
        for found in member.found(until):
            send(connection, found)
    except BrokenPipeError:
        return
    except Exception as error:  # reported by the receiver
        last = error
    send(connection, last)


if __name__ == "__main__":
    main()
