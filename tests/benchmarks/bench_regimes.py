"""Gap against processor seconds per instance of models and searches (bench_regimes STORE MODEL ROWS.jsonl).

Gaps to HGS with its budget `converged` on held-out instances of the model's city (split "test"), with
standard errors; processor seconds of one core. The model solves 1,000 instances together, and the first of
them again one at a time, with equal answers; so do the attention models of the store named by --attention,
for their sizes. With --device cuda the seconds of networks are wall-clock time. HGS and PyVRP have budgets
down to a millisecond and settings for size and budget, HGS also its own; random solutions with the same
local search are a baseline. Measurements are stored in ROWS.jsonl and not repeated; the table of all is
printed, and --picture draws it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from matplotlib.ticker import LogLocator, NullLocator
from numpy.typing import NDArray

from mcvrp.model.attention_model import AttentionModel
from mcvrp.model.decoding import decode
from mcvrp.model.network import FmMcvrp
from mcvrp.model.problem import City, Instance, Solution, cost, infeasibility
from mcvrp.model.strategies import Beam, Greedy, Nucleus
from mcvrp.storage.cities import find_city
from mcvrp.storage.models.attention import attention_models, load_attention_model
from mcvrp.storage.models.models import load_model
from mcvrp.storage.store.store import Store
from mcvrp.tasks.solvers.attention import AttentionSolver
from mcvrp.tasks.solvers.fm_mcvrp import FmMcvrpSolver
from mcvrp.tasks.solvers.hgs import HGS
from mcvrp.tasks.solvers.local_search import RandomStarts, polish
from mcvrp.tasks.solvers.pyvrp import PyVRP
from mcvrp.tasks.solvers.solver import Answer, Solver
from mcvrp.tasks.support.pictures import BLUE, FONT, GREEN, GREY, ORANGE, PINK, panel_grid, png
from tests.benchmarks.common import Gap, arguments, hgs_costs, instances_of

INSTANCES, PATHS = 1000, 16_000  # decoded together: so many instances, or so many paths if those are fewer
ALONE = 100  # instances of which the gap is taken; searches solve these one at a time
TIMED = 20  # instances that the model solves one at a time
SAMPLES, WIDTH = (16, 100), 16
BUDGETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # seconds of HGS and PyVRP
LOOKS = {
    "HGS": (BLUE, "--", "o"),
    "HGS, tuned": (BLUE, "-", "o"),
    "PyVRP, tuned": (GREEN, "-", "s"),
    "samples": (ORANGE, "--", "D"),
    "beam": (PINK, "--", "P"),
    "samples + local search": (ORANGE, "-", "X"),
    "beam + local search": (PINK, "-", "*"),
    "attention model": (GREY, "--", "<"),
    "attention model + local search": (GREY, "-", ">"),
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
    decoder: FmMcvrpSolver | AttentionSolver
    samples: int
    clock: Callable[[], float] = time.thread_time

    @property
    def together(self) -> int:
        """Instances decoded at once, each path of which has its keys and values in memory."""
        return min(INSTANCES, PATHS // self.samples)


@dataclass(frozen=True)
class Search:
    method: str
    setting: str
    solver: Solver
    samples: int = 1
    together: int = 1


def decodings(network: FmMcvrp, attention: Mapping[int, AttentionModel], n: int) -> Iterator[Decoding]:
    yield Decoding("samples", "greedy", FmMcvrpSolver(network, Greedy()), 1)
    for samples in SAMPLES:
        yield Decoding("samples", str(samples), FmMcvrpSolver(network, Nucleus(1.0)), samples)
    yield Decoding("beam", str(WIDTH), FmMcvrpSolver(network, Beam(WIDTH)), WIDTH)
    if n in attention:
        yield Decoding("attention model", "greedy", AttentionSolver(attention, greedy=True), 1)
        for samples in SAMPLES:
            yield Decoding("attention model", str(samples), AttentionSolver(attention), samples)


def searches(longest: float) -> Iterator[Search]:
    for seconds in (seconds for seconds in BUDGETS if seconds <= longest):
        yield Search("HGS", f"{seconds:g} s", HGS(time_limit=seconds))
        yield Search("HGS, tuned", f"{seconds:g} s", HGS(time_limit=seconds, tuned=True))
        yield Search("PyVRP, tuned", f"{seconds:g} s", PyVRP(time_limit=seconds, tuned=True))
    for samples in (1, 4, 16, 100):
        yield Search("random + local search", str(samples), RandomStarts(), samples)


def decoded(
    city: City, instances: Sequence[Instance], base: NDArray[np.float64], by: Decoding
) -> Iterator[Row]:
    """Yield seconds and gaps of decoding: together and one at a time, plain and with local search."""
    together, costs = polished(city, [instances[: by.together]], by)
    one_at_a_time, _ = polished(city, [[instance] for instance in instances[:TIMED]], by)
    for count, seconds in ((by.together, together), (1, one_at_a_time)):
        for k, name in enumerate((by.method, f"{by.method} + local search")):
            gap = Gap.of(costs[k, : len(base)], base[: len(costs[k])])
            yield Row(instances[0].n, name, by.setting, count, float(seconds[k]), *gap)


def polished(
    city: City, groups: Sequence[Sequence[Instance]], by: Decoding
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return seconds per instance, ``(2,)``, and costs, ``(2, B)``, without and with local search."""
    seconds, costs = np.zeros(2), []
    for group in groups:
        began = by.clock()
        answers = by.decoder.decoded(city, group, by.samples, 1)
        seconds[0] += (by.clock() - began) / (len(group) * len(groups))
        for instance, answer in zip(group[:ALONE], answers, strict=False):
            began = time.thread_time()
            solutions = [answer.solution(sample) for sample in range(by.samples)]
            better = [cost(city, solution) for solution in polish(city, instance, solutions)]
            seconds[1] += (time.thread_time() - began) / (min(len(group), ALONE) * len(groups))
            costs.append((checked(city, instance, answer.best), min(better)))
    return np.cumsum(seconds), np.array(costs).T


def searched(city: City, instances: Sequence[Instance], base: NDArray[np.float64], what: Search) -> Row:
    began, answers = time.thread_time(), list[Answer]()
    for instance in instances[: len(base)]:
        answers += what.solver.solve(city, [instance], samples=what.samples, seed=1)
    seconds = (time.thread_time() - began) / len(answers)
    pairs = zip(instances, answers, strict=False)
    gap = Gap.of([checked(city, instance, answer.solution) for instance, answer in pairs], base)
    return Row(instances[0].n, what.method, what.setting, what.together, seconds, *gap)


def checked(city: City, instance: Instance, solution: Solution | None) -> float:
    if solution is None:
        return np.inf
    assert infeasibility(instance, solution) is None
    return cost(city, solution)


def read(path: Path) -> list[Row]:
    return [Row(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


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
    parser.add_argument("model")
    parser.add_argument("rows", type=Path)
    parser.add_argument("--attention", help="attention models to measure, too")
    parser.add_argument("--version", type=int, default=1)
    parser.add_argument("--sizes", type=int, nargs="+", default=[20, 50, 100, 200])
    parser.add_argument("--longest", type=float, default=BUDGETS[-1], help="largest budget of a search")
    parser.add_argument("--device", default="cpu", help="of the networks")
    parser.add_argument("--picture", type=Path, help="draw it here")
    options = parser.parse_args()
    torch.set_num_threads(1)
    store = Store.open(options.store)
    network, card = load_model(store, options.model, options.version)
    city = find_city(store, card.city_id)
    network.to(options.device).eval()
    models = attention_models(store, options.attention) if options.attention else []
    attention = {am.n: load_attention_model(store, am.name, am.n)[0].to(options.device) for am in models}
    clock = time.thread_time if options.device == "cpu" else time.perf_counter
    measured = {(row.n, row.method, row.setting, row.together) for row in read(options.rows)}
    for n in options.sizes:
        kinds: list[Search | Decoding] = [*searches(options.longest), *decodings(network, attention, n)]
        missing = [k for k in kinds if (n, k.method, k.setting, k.together) not in measured]
        if not missing:
            continue
        instances = instances_of(city, n, INSTANCES)
        base = hgs_costs(city, instances[:ALONE])
        decode(network, city, instances[:1], strategy=Greedy())  # what PyTorch does once
        for what in missing:
            if isinstance(what, Search):
                keep(options.rows, [searched(city, instances, base, what)])
            else:
                keep(options.rows, decoded(city, instances, base, replace(what, clock=clock)))
    print(table(read(options.rows)))
    if options.picture:
        picture(read(options.rows), options.picture)


if __name__ == "__main__":
    main()
