"""Gains of local search and warm starts at equal time (bench_beyond STORE MODEL).

Gaps to HGS with its budget `converged`, on held-out instances of the model's city. All seconds are processor
seconds of one core per instance, one instance at a time, without loading the model and making the instances.
Searches have each total as their limit and settings for it and the size, HGS also its own; the model alone,
with local search and with beams run at several numbers of samples or widths, and a row has the best whose
mean time is within the total, "–" without one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from mcvrp.model.decoding import Beam, Nucleus
from mcvrp.model.problem import City, Instance, cost, infeasibility
from mcvrp.storage.cities import find_city
from mcvrp.storage.models.models import load_model
from mcvrp.storage.store.store import Store
from mcvrp.tasks.solvers.fm_mcvrp import FmMcvrpSolver
from mcvrp.tasks.solvers.hgs import HGS
from mcvrp.tasks.solvers.local_search import Polished
from mcvrp.tasks.solvers.pyvrp import PyVRP
from mcvrp.tasks.solvers.registry import SOLVERS
from mcvrp.tasks.solvers.solver import Solver
from mcvrp.tasks.solvers.warm_start import Start, WarmStarted
from tests.benchmarks.common import Gap, arguments, heading, hgs_costs, instances_of, row

TOTALS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # seconds
SAMPLES = (1, 4, 16, 64, 256, 1000)
STARTS = (4, 16)  # samples that searches start from


@dataclass(frozen=True)
class Run:
    """A method in one setting on all instances, with its mean seconds."""

    setting: str
    seconds: float
    gap: Gap

    @property
    def description(self) -> str:
        return f"{self.gap} ({self.setting})" if self.setting else str(self.gap)


@dataclass(frozen=True)
class Bench:
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
        return Run(setting, float(np.mean(seconds)), Gap.of(costs, self.base))

    def best_start(self, finisher: str, total: float, starts: dict[int, list[Start]]) -> str:
        """Return the best of a search from ``starts``, by samples, within ``total`` seconds."""
        runs = []
        for samples, own in starts.items():
            if np.mean([start.seconds for start in own]) < total:
                warm = [WarmStarted(SOLVERS[finisher], total, (start,)) for start in own]
                runs.append(self.run(f"{samples} samples", warm.__getitem__))
        return best_within(runs, np.inf)


def best_within(runs: Sequence[Run], total: float) -> str:
    fitting = [run for run in runs if run.seconds <= total]
    return min(fitting, key=lambda run: run.gap).description if fitting else "–"


def until_too_long(runs: Iterator[Run], longest: float) -> list[Run]:
    kept: list[Run] = []
    for run in runs:
        kept.append(run)
        print(f"  {run.setting:12} {run.seconds:8.4f} s  {run.description}", flush=True)
        if run.seconds > longest:
            break
    return kept


def compare(bench: Bench, model: FmMcvrpSolver, totals: Sequence[float]) -> None:
    """Print the table of one size."""
    list(model.starts(bench.city, bench.instances[:1], samples=1, seed=1))  # what PyTorch does once
    polished = Polished(model)
    beams = {width: replace(model, strategy=Beam(width)) for width in SAMPLES}
    settings: dict[str, Iterator[Run]] = {
        model.label: (bench.run(f"{s} samples", model, s) for s in SAMPLES),
        polished.label: (bench.run(f"{s} samples", polished, s) for s in SAMPLES),
        beams[1].label: (bench.run(f"width {s}", beam, s) for s, beam in beams.items()),
    }
    curves = {name: until_too_long(runs, totals[-1]) for name, runs in settings.items()}
    starts = {s: list(model.starts(bench.city, bench.instances, samples=s, seed=1)) for s in STARTS}
    heading("seconds", "HGS", "HGS, tuned", "model + HGS", "PyVRP, tuned", "model + PyVRP", *curves)
    for total in totals:
        row(
            f"{total:g}",
            bench.run("", HGS(time_limit=total)).description,
            bench.run("", HGS(time_limit=total, tuned=True)).description,
            bench.best_start("hgs", total, starts),
            bench.run("", PyVRP(time_limit=total, tuned=True)).description,
            bench.best_start("pyvrp", total, starts),
            *(best_within(runs, total) for runs in curves.values()),
        )


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("store")
    parser.add_argument("model")
    parser.add_argument("--version", type=int, default=1)
    parser.add_argument("--sizes", type=int, nargs="+", default=[24, 50, 100])
    parser.add_argument("--instances", type=int, default=50)
    parser.add_argument("--p", type=float, default=0.9, help="share of nucleus sampling")
    parser.add_argument("--totals", type=float, nargs="+", default=TOTALS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    store = Store.open(options.store)
    network, card = load_model(store, options.model, options.version)
    city = find_city(store, card.city_id)
    model = FmMcvrpSolver(network, Nucleus(options.p), version=f"{card.name} {card.version}")
    for n in options.sizes:
        instances = instances_of(city, n, options.instances)
        base = hgs_costs(city, instances)
        print(f"\nn = {n}, {len(instances)} instances, baseline {base.mean():.4f}", flush=True)
        compare(Bench(city, instances, base), model, options.totals)


if __name__ == "__main__":
    main()
