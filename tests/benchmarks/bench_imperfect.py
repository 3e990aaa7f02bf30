"""Learning from imperfect routes: the gap of a model against that of its labels (bench_imperfect FOLDER).

The demo's network is trained on routes of a heuristic (`label_sources`) and measured on days that no choice
was made on: split "test", sizes 20, 22 and 24. With --customers 50 or 100 it is the evening's network, in its
city of 1,000 addresses; with --one-size a model learns one of the five sizes, in a fifth of the steps. With
fewer days than 30,000, the number of passes and the dropout rate are those with the lowest greedy gap to the
same heuristic on 200 held-out days (split "valid"). Each training has one core, two run at a time. Results
are kept in FOLDER/results.jsonl; a second start computes what is missing. Errors are standard errors over the
days.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from mcvrp.model.problem import City, Instance, cost
from mcvrp.storage import layout
from mcvrp.storage.cities import has_city, load_city, save_city
from mcvrp.storage.store.store import Store
from mcvrp.tasks.support.pictures import BLUE, DPI, FONT, GREEN, GREY, ORANGE, png, style
from tests.benchmarks.common import (
    Gap,
    append_row,
    arguments,
    heading,
    hgs_costs,
    instances_of,
    read_rows,
    row,
)
from tests.benchmarks.label_sources import SOURCES, labels_of, nearest_neighbour, two_opt, write_dataset

SEED = 11  # of the instances of the demo's report
ALL_DAYS, VALID_DAYS = 30_000, 200
SHORT = ("savings, noise 0.3", "sweep", "driven, 10% longer")  # sources of the short form
LARGER = ("savings, noise 0.1", "savings, noise 0.3")  # of more customers
FEW = (300, 1_000, 3_000)  # a company's days: one year to ten
RECIPES = ((3, 0.0), (10, 0.1), (30, 0.2), (60, 0.3))  # passes and dropout rate
STEPS = range(100, 1_000)  # of the recipes that are tried for few days
BATCH = 64
CONTROLS = "savings", "nearest neighbour, 2-opt", "16 random solutions, local search"


@dataclass(frozen=True)
class Setting:
    """A folder of results: days of up to ``largest`` customers in the demo's city, or in a larger one."""

    folder: Path
    largest: int = 24
    one_size: bool = False  # days of ``largest`` customers only

    @property
    def demo(self) -> bool:
        return self.largest <= 24

    @property
    def city(self) -> str:
        return "laptop" if self.demo else "evening"

    @property
    def town(self) -> City:
        return City.uniform(100 if self.demo else 1_000, seed=1)

    @property
    def sizes(self) -> range:
        return range(self.largest - 4 * (not self.one_size), self.largest + 1)

    @property
    def measured(self) -> range:
        return self.sizes[::2]

    @property
    def days(self) -> int:
        """Number of measured days per size."""
        return (600 if self.demo else 150) // len(self.measured)

    @property
    def network(self) -> dict[str, int]:
        dim = 64 if self.demo else 96
        return {"dim": dim, "heads": dim // 16, "encoder_layers": 3, "decoder_layers": 3, "ff": 4 * dim}

    def store(self) -> Store:
        return Store.open(self.folder)


@dataclass(frozen=True)
class Run:
    """A training on ``days`` days of ``source``."""

    source: str
    days: int
    passes: int
    dropout: float
    seed: int

    @property
    def name(self) -> str:
        return f"run-{hashlib.sha256(repr(self).encode()).hexdigest()[:12]}"

    @property
    def steps(self) -> int:
        return self.days * self.passes // BATCH


def dataset_of(source: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in source)


def write_labels(setting: Setting, source: str) -> None:
    """Write the labels of ``source`` and its held-out days, unless they are there."""
    store, name, sizes = setting.store(), dataset_of(source), setting.sizes
    city = load_city(store, setting.city)
    for dataset, split, count in ((name, "train", ALL_DAYS), (f"{name}-held-out", "valid", VALID_DAYS)):
        if not store.exists(layout.manifest(dataset)):
            share = count // len(sizes)
            labels = [label for n in sizes for label in labels_of(source, city, n, share, split=split)]  # type: ignore[arg-type]
            write_dataset(store, city, dataset, labels)
    store.put_json(layout.label_spec(f"{name}-held-out"), {"split": "valid"})


def train(setting: Setting, run: Run) -> float:
    """Train ``run`` unless that was done; return the held-out greedy gap to the labels' source in %."""
    from mcvrp.storage.training.checkpoints import latest_checkpoint
    from mcvrp.tasks.train.phases import train as train_run
    from mcvrp.tasks.train.spec import NetworkSpec, PhaseSpec, TrainSpec

    dataset, sizes = dataset_of(run.source), setting.sizes
    # the encoder reads orders, no routes: drawn ones serve as well as a company's own
    encoder = PhaseSpec(
        name="I",
        first=sizes[0],
        last=sizes[-1],
        trunc=1_000,
        trains="encoder",
        lr=3e-3 if setting.demo else 2e-3,
        warmup=100,
    )
    both = PhaseSpec(
        name="II",
        first=sizes[-1],
        last=sizes[-1],
        trunc=run.days // len(sizes),
        passes=run.passes,
        schedule="knee",
        lr=2e-3,
        warmup=min(50, run.steps // 4),
        tail=0.5,
    )
    spec = TrainSpec(
        run=run.name,
        model=run.name,
        dataset=dataset,
        network=NetworkSpec(**setting.network, dropout=run.dropout, pointer=True),
        phases=(encoder, both),
        smallest=sizes[0],
        seed=run.seed,
        batch=BATCH,
        optimizer="muon",
        ranks=1,
        log_every=20,
        checkpoint_every=1_000_000,
        held_out=f"{dataset}-held-out",
        held_out_every=1_000_000,
    )
    store = setting.store()
    train_run(store, load_city(store, setting.city), spec, setting.folder / "cache")
    checkpoint = latest_checkpoint(store, run.name, "II")
    assert checkpoint is not None
    return float(checkpoint.metrics["greedy_gap"])


def model_costs(setting: Setting, run: Run) -> dict[str, list[float]]:
    """Return the costs of each way of decoding on the measured days."""
    from mcvrp.model.decoding import Beam, Greedy, Nucleus, decode
    from mcvrp.storage.models.models import load_model
    from mcvrp.tasks.solvers.fm_mcvrp import FmMcvrpSolver
    from mcvrp.tasks.solvers.local_search import Polished

    store = setting.store()
    city, (network, _) = load_city(store, setting.city), load_model(store, run.name)
    instances, costs = measured_days(setting), dict[str, list[float]]()
    for name, strategy, samples in (
        ("greedy", Greedy(), 1),
        ("100 samples", Nucleus(1.0), 100),
        ("beam of 16", Beam(16), 16),
        ("beam of 100", Beam(100), 100),
    ):
        decoded = decode(network, city, instances, strategy=strategy, samples=samples)
        costs[name] = [float(each.costs.min()) for each in decoded]
        if samples == 100 and name == "100 samples":  # the first 16 are those of best of 16
            costs["16 samples"] = [float(each.costs[:16].min()) for each in decoded]
    solver = Polished(FmMcvrpSolver(network, Nucleus(1.0)))
    answers = solver.solve(city, instances, samples=16, seed=1)
    costs["16 samples, local search"] = [float(np.min(answer.costs)) for answer in answers]
    return costs


def label_costs(setting: Setting, source: str) -> dict[str, list[float]]:
    """Return the costs of one answer of ``source`` on the measured days, and of the best of 16."""
    city = load_city(setting.store(), setting.city)
    solve, instances = SOURCES[source], measured_days(setting)
    runs = [
        [cost(city, solve(city, each, 16 * i + k)) for k in range(16)] for i, each in enumerate(instances)
    ]
    return {"labels": [each[0] for each in runs], "best of 16 labels": [min(each) for each in runs]}


def control_costs(setting: Setting) -> dict[str, list[float]]:
    """Return the costs of HGS and of what needs no days to learn from."""
    from mcvrp.tasks.solvers.local_search import RandomStarts

    city = load_city(setting.store(), setting.city)
    instances = measured_days(setting)
    solve = SOURCES["savings, noise 0"]
    random = RandomStarts().solve(city, instances, samples=16, seed=1)
    return {
        "HGS": hgs_costs(city, instances).tolist(),
        CONTROLS[0]: [cost(city, solve(city, each, 0)) for each in instances],
        CONTROLS[1]: [cost(city, two_opt(city, nearest_neighbour(city, each, 0))) for each in instances],
        CONTROLS[2]: [float(np.min(answer.costs)) for answer in random],
    }


@cache
def measured_days(setting: Setting) -> list[Instance]:
    city = load_city(setting.store(), setting.city)
    return [each for n in setting.measured for each in instances_of(city, n, setting.days, seed=SEED)]


def work(setting: Setting, job: tuple[str, Any]) -> dict[str, Any]:
    """Return the result of one job: a kind and its argument."""
    import torch

    torch.set_num_threads(1)
    began, (kind, argument) = time.monotonic(), job
    match kind:
        case "controls":
            result: dict[str, Any] = {"costs": control_costs(setting)}
        case "labels":
            write_labels(setting, argument)
            result = {"costs": label_costs(setting, argument)}
        case "train":
            result = {"gap": train(setting, argument)}
        case _:
            result = {"costs": model_costs(setting, argument)}
    key = argument if isinstance(argument, str) else vars(argument)
    return {"kind": kind, "key": key, "seconds": time.monotonic() - began, **result}


def pin(free: Any) -> None:
    """Give this process, and the rank that it starts, a core of its own."""
    os.sched_setaffinity(0, {free.get()})


class Results:
    """Results of finished jobs, kept in a file."""

    def __init__(self, setting: Setting) -> None:
        self.setting, self.path = setting, setting.folder / "results.jsonl"
        self.rows = {self._key(each["kind"], each["key"]): each for each in read_rows(self.path)}

    @staticmethod
    def _key(kind: str, key: object) -> str:
        return f"{kind} {key if isinstance(key, str) else vars(key) if isinstance(key, Run) else key}"

    def get(self, kind: str, key: object) -> dict[str, Any]:
        return self.rows[self._key(kind, key)]

    def compute(self, jobs: Sequence[tuple[str, Any]]) -> None:
        """Compute what is missing of ``jobs``, two at a time."""
        missing = [job for job in jobs if self._key(*job) not in self.rows]
        context = get_context("spawn")
        free = context.SimpleQueue()
        cores = sorted(os.sched_getaffinity(0))[:2]
        for core in cores:
            free.put(core)
        with ProcessPoolExecutor(len(cores), context, pin, (free,)) as pool:
            for done in pool.map(work, [self.setting] * len(missing), missing):
                append_row(self.path, done)
                self.rows[self._key(done["kind"], done["key"])] = done

    def costs(self, kind: str, key: object) -> dict[str, NDArray[np.float64]]:
        return {name: np.array(costs) for name, costs in self.get(kind, key)["costs"].items()}


def chosen(results: Results, source: str, days: int, seed: int) -> Run:
    """Return the run for ``days`` days, with the recipe of the lowest held-out gap."""
    if days not in FEW:
        return Run(source, days, *RECIPES[0], seed)
    runs = list(tried(source, days, seed))
    return min(runs, key=lambda run: results.get("train", run)["gap"])


def tried(source: str, days: int, seed: int) -> Iterator[Run]:
    for passes, dropout in RECIPES:
        run = Run(source, days, passes, dropout, seed)
        if (passes, dropout) == RECIPES[0] if days not in FEW else run.steps in STEPS:
            yield run


COLUMNS = "greedy", "16 samples", "100 samples", "beam of 16", "beam of 100", "16 samples, local search"


def tables(results: Results, runs: Sequence[Run]) -> None:
    """Print the controls and a row per run: the labels' gap and the model's, in % above HGS."""
    controls = results.costs("controls", "")
    base = controls["HGS"]
    heading("control", "gap to HGS (%)", texts=1)
    for name in CONTROLS:
        row(name, Gap.of(controls[name], base))
    print()
    heading("labels", "days", "passes, dropout", "labels", "best of 16 labels", *COLUMNS, "s", texts=1)
    for run in runs:
        labels, costs = results.costs("labels", run.source), results.costs("decode", run)
        gaps = [Gap.of(labels[name], base) for name in ("labels", "best of 16 labels")]
        gaps += [Gap.of(costs[name], base) for name in COLUMNS]
        seconds = results.get("train", run)["seconds"]
        row(run.source, f"{run.days:,}", f"{run.passes}, {run.dropout:g}", *gaps, f"{seconds:.0f}")


def figure(results: Results, runs: Sequence[Run]) -> bytes:
    """Return a PNG of the model's gap against the labels' gap, both to HGS."""
    base = results.costs("controls", "")["HGS"]
    drawn = Figure(figsize=(7, 4.6), dpi=DPI, layout="constrained")
    axis = drawn.subplots()
    style(axis)
    series = (("greedy", GREY, "s"), ("16 samples", ORANGE, "^"), ("beam of 16", BLUE, "o"))
    for name, colour, marker in (*series, ("16 samples, local search", GREEN, "D")):
        points = sorted(
            (
                Gap.of(results.costs("labels", run.source)["labels"], base).mean,
                Gap.of(results.costs("decode", run)[name], base),
            )
            for run in runs
            if run.days == ALL_DAYS and run.seed == 1
        )
        x, gaps = [each[0] for each in points], [each[1] for each in points]
        axis.errorbar(
            x,
            [gap.mean for gap in gaps],
            [2 * gap.error for gap in gaps],
            color=colour,
            fmt=marker,
            label=f"model, {name}",
        )
    axis.set_xscale("log")
    axis.set_yscale("log")
    low, high = 0.05, 50
    axis.plot([low, high], [low, high], "--", color="black", linewidth=1, label="as good as its labels")
    axis.set_xlim(1, high)
    axis.set_ylim(low, high)
    axis.set_xlabel("Gap of the labels to HGS (%)", fontsize=FONT)
    axis.set_ylabel("Gap of the model to HGS (%)", fontsize=FONT)
    drawn.legend(loc="outside right upper", frameon=False, fontsize=FONT - 2)
    return png(drawn)


def main() -> None:
    """Compute what is missing and print the tables."""
    parser = arguments(__doc__)
    parser.add_argument("folder", type=Path, help="store of the labels and models, and the results")
    parser.add_argument("--all", action="store_true", help=f"all {len(SOURCES)} sources, for hours")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--customers", type=int, default=24, help="of the largest days: 24, 50 or 100")
    parser.add_argument("--one-size", action="store_true", help="a model for the largest days alone")
    parser.add_argument("--figure", type=Path, help="PNG of the models' gaps against those of the labels")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    setting = Setting(args.folder, args.customers, args.one_size)
    store = setting.store()
    if not has_city(store, setting.city):
        save_city(store, setting.city, setting.town)
    sources = tuple(SOURCES) if args.all else SHORT if setting.demo else LARGER
    results, seeds = Results(setting), range(1, args.seeds + 1)
    results.compute([("controls", ""), *(("labels", source) for source in sources)])
    days = ALL_DAYS // 5 if setting.one_size else ALL_DAYS  # as many of a size, and as many steps in all
    wanted = [(source, days, seed) for source, seed in product(sources, seeds)]
    if setting.demo and not setting.one_size:
        wanted += [(SHORT[-1], days, seed) for days, seed in product(FEW, seeds)]
    results.compute([("train", run) for each in wanted for run in tried(*each)])
    runs = [chosen(results, *each) for each in wanted]
    results.compute([("decode", run) for run in runs])
    tables(results, runs)
    if args.figure:
        args.figure.write_bytes(figure(results, runs))


if __name__ == "__main__":
    main()
