"""A city of 10,000 customers with a cost matrix of 800 MB, in the preset `smoke`: bench_matrix FOLDER.

Seconds, peak memory (PSS, shared pages once) of all processes of a command and of the largest, growth of the
store; ten minutes. The costs are straight lines in metres times random factors, symmetric as HGS
requires it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mcvrp.model.problem import City
from mcvrp.storage.cities import load_city
from mcvrp.storage.store.store import Store
from mcvrp.tasks.support.machine import hardware
from tests.benchmarks.bench_paper import Chain
from tests.benchmarks.common import arguments, heading, instances_of
from tests.support.command import Workplace

_CUSTOMERS = 10_000
_PRESET = ("--preset", "smoke", "--set", "city.name=roads", "--set", "train.ranks=2")


def write_addresses(folder: Path) -> None:
    """Write ``addresses.csv`` and ``costs.npy``."""
    rng, xy = np.random.default_rng(1), City.uniform(_CUSTOMERS, seed=1).xy * 10_000
    detour, costs = rng.uniform(0.0, 0.5, len(xy)), np.empty((len(xy), len(xy)))
    for row, end, own in zip(costs, xy, detour, strict=True):
        row[:] = np.rint(np.hypot(*(xy - end).T) * (1 + abs(detour - own)))
    np.save(folder / "costs.npy", costs)
    lines = [f"{k},{x:.1f},{y:.1f}" for k, (x, y) in enumerate(xy)]
    (folder / "addresses.csv").write_text("\n".join(["id,x,y", *lines, ""]))


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder.absolute()
    folder.mkdir(parents=True)
    write_addresses(folder)
    print(f"{hardware()}\n", flush=True)
    heading("stage", "seconds", "all processes (GiB)", "the largest (GiB)", "store grows by (MB)", texts=1)
    place = Workplace(folder)
    chain = Chain(place, str(place.store))
    imported = ["addresses.csv", "--name", "roads", "--depot", "0", "--matrix", "costs.npy"]
    chain.stage("city import", "city", "import", *imported)
    chain.stage("label", "label", *_PRESET)
    chain.stage("verify", "verify", "smoke")
    chain.stage("train, two ranks, all phases", "train", *_PRESET)
    chain.stage("benchmark", "benchmark", *_PRESET)
    day = instances_of(load_city(Store(str(place.store)), "roads"), 30, 1)[0]
    orders = [f"{c},{d}" for c, d in zip(day.ids, day.demands, strict=True)]
    (folder / "day.csv").write_text("\n".join(["customer,demand", *orders, ""]))
    options = f"day.csv --capacity {day.capacity} --city roads --model smoke".split()
    chain.stage("solve, 30 orders, 10 s", "solve", *options)


if __name__ == "__main__":
    main()
