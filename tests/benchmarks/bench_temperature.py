"""Local search by the temperature of its samples (bench_temperature STORE MODEL --sizes 20 24 30).

Gaps to HGS (200 iterations without improvement) of the best of several samples, without and with local
search of each, by top-p and temperature; the first row has random solutions instead of samples. Instances of
the split "valid" that no report has. No times, as other load does not change the figures.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from mcvrp.model.instances import InstanceStream
from mcvrp.model.network import FmMcvrp
from mcvrp.model.problem import City, Instance, cost
from mcvrp.model.strategies import Nucleus
from mcvrp.storage.cities import find_city
from mcvrp.storage.models.models import load_model
from mcvrp.storage.store.store import Store
from mcvrp.tasks.solvers.fm_mcvrp import FmMcvrpSolver
from mcvrp.tasks.solvers.hgs import HGS
from mcvrp.tasks.solvers.local_search import Polished, RandomStarts
from mcvrp.tasks.solvers.solver import Solver

SEED = 77
SETTINGS = ((0.9, 1.0), (1.0, 1.0), (1.0, 1.5), (1.0, 2.0), (1.0, 3.0))  # p, temperature


def gaps(
    solver: Solver, city: City, instances: Sequence[Instance], samples: int, base: NDArray[np.float64]
) -> str:
    """Return mean gap (%) and standard error of the best of ``samples``."""
    costs = [answer.costs.min() for answer in solver.solve(city, instances, samples=samples, seed=1)]
    gap = 100 * (np.array(costs) / base - 1)
    return f"{gap.mean():.3f} ± {gap.std(ddof=1) / len(gap) ** 0.5:.3f} %"


def rows(
    network: FmMcvrp, city: City, instances: Sequence[Instance], samples: int, base: NDArray[np.float64]
) -> Iterator[tuple[str, ...]]:
    """Yield each setting, its gap as sampled, and its gap with local search of each sample."""
    yield "random solutions", "–", gaps(RandomStarts(), city, instances, samples, base)
    for p, temperature in SETTINGS:
        sampler = FmMcvrpSolver(network, Nucleus(p, temperature=temperature))
        plain, polished = (
            gaps(each, city, instances, samples, base) for each in (sampler, Polished(sampler))
        )
        yield f"p = {p}, temperature {temperature}", plain, polished


def main() -> None:
    """Print a Markdown table a size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("store")
    parser.add_argument("model")
    parser.add_argument("--version", type=int, default=1)
    parser.add_argument("--sizes", type=int, nargs="+", default=[20, 24, 30])
    parser.add_argument("--instances", type=int, default=200)
    parser.add_argument("--samples", type=int, nargs="+", default=[16, 100])
    options = parser.parse_args()
    torch.set_num_threads(1)
    store = Store.open(options.store)
    network, card = load_model(store, options.model, options.version)
    network.eval()
    city = find_city(store, card.city_id)
    search = HGS(iterations=200)
    for n in options.sizes:
        instances = [InstanceStream(city, SEED, "valid")(n, i) for i in range(options.instances)]
        base = np.array([cost(city, search.search(city, instance, 1)) for instance in instances])
        for samples in options.samples:
            print(f"\n| n = {n}, best of {samples} | as sampled | local search of each |\n|---|--:|--:|")
            for row in rows(network, city, instances, samples, base):
                print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
