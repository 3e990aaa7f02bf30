"""Ablation of the pointer output and Muon over seeds (bench_network STORE).

Every variant is trained on the labels of the demo's store by `mcvrp train`, for the same number of steps, as
one rank of one thread, two variants at a time; processor seconds are those of the command. Gaps to HGS
(`converged`) on held-out instances of the split "test" from number 5,000 on, which no report has; standard
errors over seeds.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mcvrp.model.decoding import Beam, Greedy, Nucleus, Strategy, decode
from mcvrp.model.problem import City, Instance
from mcvrp.storage.cities import load_city
from mcvrp.storage.models.models import load_model
from mcvrp.storage.store.store import Store
from tests.benchmarks.common import Gap, arguments, heading, hgs_costs, instances_of, row

CITY, FIRST = "laptop", 5000
MEASURED: dict[str, tuple[Strategy, int]] = {
    "greedy": (Greedy(), 1),
    "best of 16": (Nucleus(), 16),
    "beam of 16": (Beam(16), 16),
}


@dataclass(frozen=True)
class Variant:
    """One of the networks and optimizers compared."""

    pointer: bool
    optimizer: str

    def name(self, seed: int) -> str:
        return f"ablation-{'pointer' if self.pointer else 'plain'}-{self.optimizer}-{seed}"

    def train(self, store: Path, seed: int, steps: int) -> float:
        """Train with `mcvrp train`; return the processor seconds of the command and all that it started."""
        name = self.name(seed)
        both = f"first=24,last=24,trunc={steps * 64 // 5},lr=0.002,warmup=50,schedule='knee',tail=0.4"
        encoder = "first=20,last=24,trunc=1000,trains='encoder',lr=0.003,warmup=50"
        changes = {
            "run": name,
            "model": name,
            "phases": f"[{{name='I',{encoder}}},{{name='II',{both}}}]",
            "network.pointer": str(self.pointer).lower(),
            "optimizer": self.optimizer,
            "seed": str(seed),
            "ranks": "1",
            "held_out": "",
        }
        options = [part for key, value in changes.items() for part in ("--set", f"train.{key}={value}")]
        mcvrp = str(Path(sys.executable).with_name("mcvrp"))
        program = [mcvrp, "train", "--preset", CITY, "--store", str(store), *options]
        watched = [sys.executable, __file__, "--watch", *program, "--set", "label.held_out=0"]
        done = subprocess.run(watched, check=True, stdout=subprocess.PIPE, text=True)
        return float(done.stdout.split()[-1])


def watch(program: list[str]) -> None:
    """Run ``program`` and print the processor seconds of it and its descendants."""
    subprocess.run(program, check=True, stdout=subprocess.DEVNULL)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(used.ru_utime + used.ru_stime)


def gaps(
    store: Store, city: City, name: str, instances: list[Instance], base: NDArray[np.float64]
) -> list[float]:
    """Return the mean gap in % of each way of decoding."""
    network, _ = load_model(store, name)
    means = []
    for strategy, samples in MEASURED.values():
        decoded = decode(network, city, instances, strategy=strategy, samples=samples)
        means.append(Gap.of([each.costs.min() for each in decoded], base).mean)
    return means


def main() -> None:
    """Train all variants and print their table."""
    if sys.argv[1:2] == ["--watch"]:
        watch(sys.argv[2:])
        return
    parser = arguments(__doc__)
    parser.add_argument("store", type=Path, help="a store that has the demo's labels")
    parser.add_argument("--folder", type=Path, help="where a copy of the store goes, else beside it")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=900)
    parser.add_argument("--instances", type=int, default=60, help="of each of the sizes 20 to 24")
    args = parser.parse_args()
    copy = args.folder or args.store.with_name(f"{args.store.name}-ablation")
    if not copy.exists():
        shutil.copytree(args.store, copy)
    store = Store.open(copy)
    city = load_city(store, CITY)
    instances = [each for n in range(20, 25) for each in instances_of(city, n, args.instances, first=FIRST)]
    base = hgs_costs(city, instances)
    variants = [Variant(*each) for each in product((False, True), ("adamw", "muon"))]
    work = list(product(variants, range(1, args.seeds + 1)))
    with ThreadPoolExecutor(2) as pool:
        seconds = list(pool.map(lambda each: each[0].train(copy, each[1], args.steps), work))
    print(f"{args.steps} steps, {args.seeds} seeds, {len(instances)} instances")
    heading("output", "optimizer", "processor s", *(f"{name} (%)" for name in MEASURED), texts=2)
    for variant in variants:
        mine = [k for k, (each, _) in enumerate(work) if each == variant]
        measured = np.array([gaps(store, city, variant.name(work[k][1]), instances, base) for k in mine])
        errors = measured.std(0, ddof=1) / len(measured) ** 0.5
        cells = [f"{mean:.2f} ± {error:.2f}" for mean, error in zip(measured.mean(0), errors, strict=True)]
        output = "pointer" if variant.pointer else "as in the paper"
        took = np.mean([seconds[k] for k in mine])
        row(output, variant.optimizer, f"{took:.0f}", *cells)


if __name__ == "__main__":
    main()
