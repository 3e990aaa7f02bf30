"""Gap against processor seconds per instance of models and searches (bench_regimes STORE MODEL ROWS.jsonl).

Gaps to HGS with its budget `converged` on held-out instances of the model's city (split "test"), with
standard errors; processor seconds of one core, or with --cores of that many cores, all of which are busy. The
model solves --instances together, and the first of them again one at a time, with equal answers. With
--device cuda the seconds of networks are wall-clock time. HGS and PyVRP have budgets down to a millisecond
and settings for size and budget, HGS also its own; random solutions with the same local search are a
baseline. Measurements are stored in ROWS.jsonl, costs of `converged` beside it, and not repeated; the table
of all is printed, and --picture draws it.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from matplotlib.ticker import LogLocator, NullLocator
from numpy.typing import NDArray

from mcvrp.model.decoding import decode
from mcvrp.model.network import FmMcvrp
from mcvrp.model.problem import City, Instance, Solution, cost, infeasibility
from mcvrp.model.strategies import Beam, Greedy, Nucleus
from mcvrp.storage.cities import find_city, load_city
from mcvrp.storage.models.models import load_model
from mcvrp.storage.store.store import Store
from mcvrp.tasks.solvers.fm_mcvrp import FmMcvrpSolver
from mcvrp.tasks.solvers.hgs import HGS
from mcvrp.tasks.solvers.local_search import RandomStarts, polish
from mcvrp.tasks.solvers.pyvrp import PyVRP
from mcvrp.tasks.solvers.solver import Solver
from mcvrp.tasks.support.pictures import BLUE, FONT, GREEN, ORANGE, PINK, panel_grid, png
from tests.benchmarks.common import Gap, arguments, hgs_costs, instances_of

ALONE = 100  # instances of which the gap is taken; searches solve these one at a time
SAMPLES, WIDTH = (16, 100), 16
BUDGETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # seconds of HGS and PyVRP
R = TypeVar("R")
LOOKS = {
    "HGS": (BLUE, "--", "o"),
    "HGS, tuned": (BLUE, "-", "o"),
    "PyVRP, tuned": (GREEN, "-", "s"),
    "samples": (ORANGE, "--", "D"),
    "beam": (PINK, "--", "P"),
    "samples + local search": (ORANGE, "-", "X"),
    "beam + local search": (PINK, "-", "*"),
    "random + local search": ("black", ":", "v"),
}


@dataclass(frozen=True)
class Row:
    """A method in one setting: mean processor seconds per instance, mean gap (%) and its standard error."""

    n: int
    method: str
    setting: str
    together: int
    seconds: float
    gap: float
    error: float


@dataclass(frozen=True)
class Decoding:
    method: str
    setting: str
    decoder: FmMcvrpSolver
    samples: int
    together: int
    clock: Callable[[], float]


@dataclass(frozen=True)
class Search:
    method: str
    setting: str
    solver: Solver
    samples: int = 1
    together: int = 1


def decodings(network: FmMcvrp, instances: int, paths: int) -> Iterator[Decoding]:
    """Yield decodings of so many instances together, or of so many paths if those are fewer."""
    on_cpu = network.output.weight.device.type == "cpu"
    clock = time.thread_time if on_cpu else time.perf_counter

    def decoding(method: str, setting: str, decoder: FmMcvrpSolver, samples: int) -> Decoding:
        return Decoding(method, setting, decoder, samples, min(instances, paths // samples), clock)

    yield decoding("samples", "greedy", FmMcvrpSolver(network, Greedy()), 1)
    for samples in SAMPLES:
        yield decoding("samples", str(samples), FmMcvrpSolver(network, Nucleus(1.0)), samples)
    yield decoding("beam", str(WIDTH), FmMcvrpSolver(network, Beam(WIDTH)), WIDTH)


def searches(longest: float) -> Iterator[Search]:
    for seconds in (seconds for seconds in BUDGETS if seconds <= longest):
        yield Search("HGS", f"{seconds:g} s", HGS(time_limit=seconds))
        yield Search("HGS, tuned", f"{seconds:g} s", HGS(time_limit=seconds, tuned=True))
        yield Search("PyVRP, tuned", f"{seconds:g} s", PyVRP(time_limit=seconds, tuned=True))
    for samples in (1, 4, 16, 100):
        yield Search("random + local search", str(samples), RandomStarts(), samples)


class Cores:
    """Processes of one thread that solve instances, and count the processor seconds of each."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"))
        list(self._pool.map(time.sleep, [1.0] * count))  # all are there

    def __call__(self, work: Callable[..., R], *arguments: Iterable[Any]) -> tuple[float, list[R]]:
        """Return seconds per instance of all cores together, and the results of ``work``."""
        seconds, results = zip(*self._pool.map(_timed, itertools.repeat(work), *arguments), strict=True)
        return sum(seconds) / len(seconds) / self.count, list(results)


def _timed(work: Callable[..., R], *arguments: Any) -> tuple[float, R]:
    began = time.thread_time()
    result = work(*arguments)
    return time.thread_time() - began, result


def _solve(city: City, what: Search, instance: Instance) -> float:
    (answer,) = what.solver.solve(city, [instance], samples=what.samples, seed=1)
    return checked(city, instance, answer.solution)


def _polish(city: City, instance: Instance, solutions: Sequence[Solution]) -> float:
    return min(cost(city, solution) for solution in polish(city, instance, solutions))


def _converged(city: City, instance: Instance) -> float:
    return float(hgs_costs(city, [instance])[0])


def decoded(
    city: City,
    instances: Sequence[Instance],
    base: NDArray[np.float64],
    by: Decoding,
    cores: Cores,
    alone: int,
) -> Iterator[Row]:
    """Yield seconds and gaps of decoding, together and ``alone`` one at a time, and with local search."""
    together, costs = polished(city, [instances[: by.together]], by, cores)
    one_at_a_time, _ = polished(city, [[instance] for instance in instances[:alone]], by, cores)
    for count, seconds in ((by.together, together), (1, one_at_a_time)):
        for k, name in enumerate((by.method, f"{by.method} + local search")):
            gap = Gap.of(costs[k, : len(base)], base[: len(costs[k])])
            yield Row(instances[0].n, name, by.setting, count, float(seconds[k]), *gap)


def polished(
    city: City, groups: Sequence[Sequence[Instance]], by: Decoding, cores: Cores
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return seconds per instance, ``(2,)``, and costs, ``(2, B)``, without and with local search."""
    count, began = sum(map(len, groups)), by.clock()
    found = [by.decoder.decoded(city, group, by.samples, 1) for group in groups]
    seconds = (by.clock() - began) / count
    instances = list(itertools.chain.from_iterable(groups))[:ALONE]
    answers = list(itertools.chain.from_iterable(found))[:ALONE]
    solutions = [[answer.solution(k) for k in range(by.samples)] for answer in answers]
    polishing, better = cores(_polish, itertools.repeat(city), instances, solutions)
    pairs = zip(instances, answers, strict=True)
    plain = [checked(city, instance, answer.best) for instance, answer in pairs]
    return np.array([seconds, seconds + polishing]), np.array([plain, better])


def searched(
    city: City, instances: Sequence[Instance], base: NDArray[np.float64], what: Search, cores: Cores
) -> Row:
    again, each = itertools.repeat, instances[: len(base)]
    seconds, costs = cores(_solve, again(city), again(what), each)
    return Row(instances[0].n, what.method, what.setting, what.together, seconds, *Gap.of(costs, base))


def checked(city: City, instance: Instance, solution: Solution | None) -> float:
    if solution is None:
        return np.inf
    assert infeasibility(instance, solution) is None
    return cost(city, solution)


def read(path: Path) -> list[Row]:
    return [Row(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def converged(path: Path, city: City, instances: Sequence[Instance], cores: Cores) -> NDArray[np.float64]:
    """Return the costs of HGS `converged`, from the file beside ``path`` if it has them."""
    beside = path.with_suffix(".base.json")
    known = json.loads(beside.read_text()) if beside.exists() else {}
    n = str(instances[0].n)
    if n not in known:
        known[n] = cores(_converged, itertools.repeat(city), instances)[1]
        beside.write_text(json.dumps(known))
    return np.array(known[n])


def keep(path: Path, rows: Iterable[Row]) -> None:
    lines = [json.dumps(asdict(row)) for row in rows]
    with path.open("a") as out:
        out.write("".join(f"{line}\n" for line in lines))
    print(*lines, sep="\n", flush=True)


def table(rows: Sequence[Row]) -> str:
    """Return a Markdown table: milliseconds per instance (a network's together / one at a time) and gap."""
    sizes = sorted({row.n for row in rows})
    lines = ["| | " + " | ".join(f"n = {n}" for n in sizes) + " |", "|---|" + "--:|" * len(sizes)]
    for method, setting in dict.fromkeys((row.method, row.setting) for row in rows):
        cells = []
        for n in sizes:
            own = [row for row in rows if (row.n, row.method, row.setting) == (n, method, setting)]
            if own and np.isfinite(own[0].gap):
                times = " / ".join(f"{1000 * row.seconds:.3g}" for row in own)
                cells.append(f"{times} ms: {Gap(own[0].gap, own[0].error)}")
            else:
                cells.append("no answer to some" if own else "–")
        lines.append(f"| {method}, {setting} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def picture(rows: Sequence[Row], path: Path) -> None:
    sizes = sorted({row.n for row in rows})
    figure, axes = panel_grid(len(sizes), 2, 5.2, 3.6)
    for n, axis in zip(sizes, axes, strict=True):
        for method, (colour, dash, mark) in LOOKS.items():
            for together in (True, False):
                own = [r for r in rows if (r.n, r.method, r.together > 1) == (n, method, together)]
                own = sorted((r for r in own if np.isfinite(r.gap)), key=lambda row: row.seconds)
                if own:
                    searching = method.startswith(("HGS", "PyVRP", "random"))
                    suffix = "" if searching else ", together" if together else ", one at a time"
                    axis.plot(
                        [1000 * r.seconds for r in own],
                        [max(r.gap, 0.01) for r in own],
                        dash,
                        color=colour,
                        marker=mark,
                        markersize=5,
                        linewidth=1.2,
                        alpha=1.0 if together or searching else 0.6,
                        markerfacecolor=colour if together or searching else "white",
                        label=method + suffix,
                    )
        axis.set(xscale="log", yscale="log", title=f"{n} customers")
        for ticked in (axis.xaxis, axis.yaxis):
            ticked.set_major_locator(LogLocator(subs=(1, 3)))
            ticked.set_major_formatter("{x:g}")
            ticked.set_minor_locator(NullLocator())
        axis.set_xlabel("processor milliseconds per instance", fontsize=FONT)
        axis.set_ylabel("gap to HGS converged (%)", fontsize=FONT)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=FONT - 1, frameon=False)
    path.write_bytes(png(figure))


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("store")
    parser.add_argument("model", help="or with --only searches the city")
    parser.add_argument("rows", type=Path)
    parser.add_argument("--version", type=int, default=1)
    parser.add_argument("--sizes", type=int, nargs="+", default=[20, 50, 100, 200])
    parser.add_argument("--longest", type=float, default=BUDGETS[-1], help="largest budget of a search")
    parser.add_argument("--device", default="cpu", help="of the networks")
    parser.add_argument("--only", choices=["searches", "networks"], help="measure these")
    parser.add_argument("--cores", type=int, default=1, help="of searches and local search")
    parser.add_argument("--instances", type=int, default=1000, help="decoded together, at most")
    parser.add_argument("--paths", type=int, default=16_000, help="decoded together, at most")
    parser.add_argument("--alone", type=int, default=20, help="instances decoded one at a time")
    parser.add_argument("--picture", type=Path, help="draw it here")
    options = parser.parse_args()
    torch.set_num_threads(1)
    cores = Cores(options.cores)
    store = Store.open(options.store)
    network = None
    if options.only == "searches":
        city = load_city(store, options.model)
    else:
        network, card = load_model(store, options.model, options.version)
        city = find_city(store, card.city_id)
        network = (network.to_bf16() if options.device == "cuda" else network).to(options.device).eval()
    measured = {(row.n, row.method, row.setting, row.together) for row in read(options.rows)}
    for n in options.sizes:
        kinds: list[Search | Decoding] = []
        if options.only != "networks":
            kinds += searches(options.longest)
        if network:
            kinds += decodings(network, options.instances, options.paths)
        missing = [k for k in kinds if (n, k.method, k.setting, k.together) not in measured]
        if not missing:
            continue
        instances = instances_of(city, n, max(ALONE, options.instances))
        base = converged(options.rows, city, instances[:ALONE], cores)
        if network:
            decode(network, city, instances[:1], strategy=Greedy())  # what PyTorch does once
        for what in missing:
            if isinstance(what, Search):
                keep(options.rows, [searched(city, instances, base, what, cores)])
            else:
                keep(options.rows, decoded(city, instances, base, what, cores, options.alone))
    print(table(read(options.rows)))
    if options.picture:
        picture(read(options.rows), options.picture)


if __name__ == "__main__":
    main()
