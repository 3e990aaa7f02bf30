"""Gains of local search, re-construction and warm starts at equal time (bench_beyond STORE MODEL).

Gaps to HGS with its budget `converged`, on held-out instances of the model's city (split "test"). All
seconds are processor seconds of one core per instance, one instance at a time, without loading the model
and making the instances. Searches have each total as their limit; the model alone, with local search, and
with re-construction run at several numbers of samples or rounds, and a row has the best whose mean time is
within the total, "–" without one.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from mcvrp.model.decoding import Nucleus
from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City, Instance, cost, infeasibility
from mcvrp.storage.cities import find_city
from mcvrp.storage.models.models import load_model
from mcvrp.storage.store.store import Store
from mcvrp.tasks.solvers.budgets import budget_for
from mcvrp.tasks.solvers.fm_mcvrp import FmMcvrpSolver
from mcvrp.tasks.solvers.hgs import HGS
from mcvrp.tasks.solvers.local_search import Polished
from mcvrp.tasks.solvers.pyvrp import PyVRP
from mcvrp.tasks.solvers.reconstruction import Reconstructed
from mcvrp.tasks.solvers.registry import SOLVERS
from mcvrp.tasks.solvers.solver import Solver
from mcvrp.tasks.solvers.warm_start import Start, WarmStarted

TOTALS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # seconds
SAMPLES = (1, 4, 16, 64, 256, 1000)
ROUNDS = (2, 5, 10, 20, 40)
FIRST = 16  # samples that re-construction begins with
STARTS = (4, 16)  # samples that searches start from
P = 0.9


@dataclass(frozen=True)
class Run:
    """A method in one setting on all instances: mean seconds, mean gap in percent and its standard error."""

    setting: str
    seconds: float
    gap: float
    error: float

    @property
    def description(self) -> str:
        return f"{self.gap:.2f} ± {self.error:.2f}" + (f" ({self.setting})" if self.setting else "")


@dataclass(frozen=True)
class Bench:
    """The instances of one size with the costs to compare with."""

    city: City
    instances: Sequence[Instance]
    base: NDArray[np.float64]

    def run(self, setting: str, solver: Solver | Callable[[int], Solver], samples: int = 1) -> Run:
        """Return how the solver does, one instance at a time; a function makes one for each instance."""
        seconds, costs = [], []
        for k, instance in enumerate(self.instances):
            chosen = solver(k) if callable(solver) else solver
            began = time.thread_time()
            (answer,) = chosen.solve(self.city, [instance], samples=samples, seed=1)
            seconds.append(time.thread_time() - began)
            assert answer.solution is not None
            assert infeasibility(instance, answer.solution) is None
            costs.append(cost(self.city, answer.solution))
        gaps = 100 * (np.array(costs) / self.base - 1)
        return Run(
            setting, float(np.mean(seconds)), float(gaps.mean()), float(gaps.std(ddof=1) / len(gaps) ** 0.5)
        )

    def warm(self, finisher: str, total: float, starts: Sequence[Start]) -> Run:
        """Return how a search does from ``starts`` within ``total``."""
        count = len(starts[0].routes)
        return self.run(f"{count} samples", lambda k: WarmStarted(SOLVERS[finisher], total, (starts[k],)))


def curves(bench: Bench, model: FmMcvrpSolver, least: int, longest: float) -> Iterator[tuple[str, list[Run]]]:
    """Yield the methods that have no clock, each in all settings that take no longer than ``longest``."""

    def until_too_long(runs: Iterator[Run]) -> list[Run]:
        found: list[Run] = []
        for run in runs:
            found.append(run)
            print(f"  {run.setting:12} {run.seconds:8.4f} s  {run.description}", flush=True)
            if run.seconds > longest:
                break
        return found

    def rounds(size: int) -> Iterator[Run]:
        for count in ROUNDS:
            yield bench.run(f"{count} rounds", Reconstructed(model, count, least, size), FIRST)

    polished = Polished(model)
    yield model.label, until_too_long(bench.run(f"{s} samples", model, s) for s in SAMPLES)
    yield polished.label, until_too_long(bench.run(f"{s} samples", polished, s) for s in SAMPLES)
    yield Reconstructed(model).label, until_too_long(rounds(FIRST))


def within(runs: Sequence[Run], total: float) -> str:
    fitting = [run for run in runs if run.seconds <= total]
    return min(fitting, key=lambda run: run.gap).description if fitting else "–"


def size(city: City, model: FmMcvrpSolver, n: int, count: int, least: int, totals: Sequence[float]) -> None:
    """Print the table of one size."""
    instances = [InstanceStream(city, 1, "test")(n, i) for i in range(count)]
    converged = HGS(**budget_for("converged", n).options())
    base = np.array([cost(city, converged.search(city, instance, 1)) for instance in instances])
    bench = Bench(city, instances, base)
    print(f"\nn = {n}, {count} instances, baseline {base.mean():.4f}", flush=True)
    list(model.starts(city, instances[:1], samples=1, seed=1))  # what PyTorch does once
    found = dict(curves(bench, model, least, totals[-1]))
    starts = {s: list(model.starts(city, instances, samples=s, seed=1)) for s in STARTS}
    took = {s: float(np.mean([start.seconds for start in given])) for s, given in starts.items()}
    names = ["HGS", "HGS, population 10", "model + HGS", "PyVRP", "model + PyVRP", *found]
    print(f"\n| seconds | {' | '.join(names)} |\n|--:|{'--:|' * len(names)}")
    for total in totals:
        warm = [[given for s, given in starts.items() if took[s] < total] for _ in range(2)]
        cells = [
            bench.run("", HGS(time_limit=total)).description,
            bench.run("", HGS(time_limit=total, population=10)).description,
            within([bench.warm("hgs", total, given) for given in warm[0]], np.inf),
            bench.run("", PyVRP(time_limit=total)).description,
            within([bench.warm("pyvrp", total, given) for given in warm[1]], np.inf),
            *(within(runs, total) for runs in found.values()),
        ]
        print(f"| {total:g} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Print a table a size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("store")
    parser.add_argument("model")
    parser.add_argument("--version", type=int, default=1)
    parser.add_argument("--sizes", type=int, nargs="+", default=[24, 50, 100])
    parser.add_argument("--instances", type=int, default=50)
    parser.add_argument("--totals", type=float, nargs="+", default=TOTALS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    store = Store.open(options.store)
    network, card = load_model(store, options.model, options.version)
    city = find_city(store, card.city_id)
    model = FmMcvrpSolver(network.eval(), Nucleus(P), version=f"{card.name} {card.version}")
    for n in options.sizes:
        size(city, model, n, options.instances, card.smallest or 20, options.totals)


if __name__ == "__main__":
    main()
