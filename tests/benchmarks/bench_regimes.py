"""Gap against processor seconds per instance of models and searches (bench_regimes STORE MODEL ROWS.jsonl).

Gaps to HGS with its budget `converged` on held-out instances of the model's city (split "test"), with
standard errors; processor seconds of one core. The model solves 1,000 instances together, and the first of
them again one at a time, with equal answers; so do the attention models of the store named by --attention,
for their sizes. HGS and PyVRP have budgets down to a millisecond; random solutions with the same local
search are a baseline. Measurements are stored in ROWS.jsonl (with HGS's costs) and not repeated; the table
of all is printed, and --picture draws it.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from matplotlib.ticker import LogLocator, NullLocator
from numpy.typing import NDArray

from mcvrp.model.attention_model import AttentionModel
from mcvrp.model.decoding import Decoded, decode
from mcvrp.model.instances import InstanceStream
from mcvrp.model.network import FmMcvrp
from mcvrp.model.problem import City, Instance, Solution, cost, infeasibility
from mcvrp.model.strategies import Beam, Greedy, Nucleus
from mcvrp.storage.cities import find_city
from mcvrp.storage.models.attention import attention_models, load_attention_model
from mcvrp.storage.models.models import load_model
from mcvrp.storage.store.store import Store
from mcvrp.tasks.solvers.attention import AttentionSolver
from mcvrp.tasks.solvers.budgets import budget_for
from mcvrp.tasks.solvers.fm_mcvrp import FmMcvrpSolver
from mcvrp.tasks.solvers.hgs import HGS
from mcvrp.tasks.solvers.local_search import RandomStarts, polish
from mcvrp.tasks.solvers.pyvrp import PyVRP
from mcvrp.tasks.solvers.solver import Solver
from mcvrp.tasks.support.pictures import BLUE, FONT, GREEN, GREY, ORANGE, PINK, panel_grid, png

INSTANCES, PATHS = 1000, 16_000  # decoded together: so many instances, or so many paths if those are fewer
ALONE = 100  # instances of which the gap is taken; what searches answers these one at a time
TIMED = 20  # instances that the model answers one at a time
SAMPLES, WIDTH = (16, 100), 16
BUDGETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # seconds of HGS and PyVRP
LOOKS = {
    "HGS": (BLUE, "-", "o"),
    "PyVRP": (GREEN, "-", "s"),
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


class Decoder(Protocol):
    """A network that has learnt, and how it is asked."""

    def decoded(self, city: City, instances: Sequence[Instance], samples: int, seed: int) -> list[Decoded]:
        """Return all samples of each instance."""
        ...


@dataclass(frozen=True)
class Decoding:
    """A network that makes ``samples`` answers to an instance."""

    method: str
    setting: str
    decoder: Decoder
    samples: int

    @property
    def together(self) -> int:
        """Instances decoded at once, each path of which has its keys and values in memory."""
        return min(INSTANCES, PATHS // self.samples)


@dataclass(frozen=True)
class Alone:
    """A method without the model, one instance at a time."""

    method: str
    setting: str
    answer: Callable[[City, Instance], Solution | None]
    together: int = 1


def decodings(network: FmMcvrp, attention: Mapping[int, AttentionModel], n: int) -> Iterator[Decoding]:
    """Yield the settings of the model, and of the attention model of ``n`` customers if there is one."""
    yield Decoding("samples", "greedy", FmMcvrpSolver(network, Greedy()), 1)
    for samples in SAMPLES:
        yield Decoding("samples", str(samples), FmMcvrpSolver(network, Nucleus(1.0)), samples)
    yield Decoding("beam", str(WIDTH), FmMcvrpSolver(network, Beam(WIDTH)), WIDTH)
    if n in attention:
        yield Decoding("attention model", "greedy", AttentionSolver(attention, greedy=True), 1)
        for samples in SAMPLES:
            yield Decoding("attention model", str(samples), AttentionSolver(attention), samples)


def alone(longest: float) -> Iterator[Alone]:
    """Yield the searches, up to ``longest`` seconds, and local search of random solutions."""
    for seconds in (seconds for seconds in BUDGETS if seconds <= longest):
        yield Alone("HGS", f"{seconds:g} s", by_search(HGS(time_limit=seconds)))
        yield Alone("PyVRP", f"{seconds:g} s", by_search(PyVRP(time_limit=seconds)))
    for samples in (1, 4, 16, 100):
        yield Alone("random + local search", str(samples), by_search(RandomStarts(), samples))


def by_search(solver: Solver, samples: int = 1) -> Callable[[City, Instance], Solution | None]:
    """Return a function that solves an instance with ``solver``."""

    def answer(city: City, instance: Instance) -> Solution | None:
        (found,) = solver.solve(city, [instance], samples=samples, seed=1)
        return found.solution

    return answer


def decoded(
    city: City, instances: Sequence[Instance], base: NDArray[np.float64], what: Decoding
) -> Iterator[Row]:
    """Yield what decoding takes and reaches: together and one at a time, plain and with local search."""
    names = (what.method, f"{what.method} + local search")
    seconds, costs = polished(city, [instances[: what.together]], what)
    for k, name in enumerate(names):
        yield row(name, what.setting, instances[0].n, what.together, seconds[k], costs[k], base)
    seconds, _ = polished(city, [[instance] for instance in instances[:TIMED]], what)
    for k, name in enumerate(names):
        yield row(name, what.setting, instances[0].n, 1, seconds[k], costs[k], base)


def polished(
    city: City, groups: Sequence[Sequence[Instance]], what: Decoding
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return seconds per instance, ``(2,)``, and costs, ``(2, B)``, without and with local search."""
    seconds, costs = np.zeros(2), []
    for group in groups:
        began = time.thread_time()
        answers = what.decoder.decoded(city, group, what.samples, 1)
        seconds[0] += (time.thread_time() - began) / (len(group) * len(groups))
        for instance, answer in zip(group[:ALONE], answers, strict=False):
            began = time.thread_time()
            found = [answer.solution(sample) for sample in range(what.samples)]
            better = [cost(city, solution) for solution in polish(city, instance, found)]
            seconds[1] += (time.thread_time() - began) / (min(len(group), ALONE) * len(groups))
            costs.append((checked(city, instance, answer.best), min(better)))
    return np.cumsum(seconds), np.array(costs).T


def answered(city: City, instances: Sequence[Instance], base: NDArray[np.float64], what: Alone) -> Row:
    """Return what ``what`` takes and reaches."""
    began = time.thread_time()
    answers = [what.answer(city, instance) for instance in instances[: len(base)]]
    seconds = (time.thread_time() - began) / len(answers)
    costs = [checked(city, *pair) for pair in zip(instances, answers, strict=False)]
    return row(what.method, what.setting, instances[0].n, what.together, seconds, costs, base)


def row(
    method: str,
    setting: str,
    n: int,
    together: int,
    seconds: float,
    costs: Sequence[float] | NDArray[np.float64],
    base: NDArray[np.float64],
) -> Row:
    """Return the row of ``costs``, of whose instances the first have a base, ``(b,)``."""
    gaps = 100 * (np.array(costs[: len(base)]) / base[: len(costs)] - 1)
    error = float(gaps.std(ddof=1) / len(gaps) ** 0.5)
    return Row(n, method, setting, together, float(seconds), float(gaps.mean()), error)


def checked(city: City, instance: Instance, solution: Solution | None) -> float:
    """Return the cost of a feasible solution, infinite without one."""
    if solution is None:
        return np.inf
    assert infeasibility(instance, solution) is None
    return cost(city, solution)


def base_costs(city: City, instances: Sequence[Instance], kept: Path) -> NDArray[np.float64]:
    """Return the costs of HGS `converged`, kept in a file for the next run: at n = 200 it takes minutes."""
    if not kept.exists():
        solver = HGS(**budget_for("converged", instances[0].n).options())
        kept.write_text(json.dumps([cost(city, solver.search(city, instance, 1)) for instance in instances]))
    return np.array(json.loads(kept.read_text()))


def read(path: Path) -> list[Row]:
    """Return the rows that ``path`` holds."""
    return [Row(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def keep(path: Path, rows: Iterable[Row]) -> None:
    """Write ``rows`` to ``path``, all at once, and show them."""
    lines = [json.dumps(asdict(row)) for row in rows]
    with path.open("a") as out:
        out.write("".join(f"{line}\n" for line in lines))
    print(*lines, sep="\n", flush=True)


def table(rows: Sequence[Row]) -> str:
    """Return a Markdown table: milliseconds an instance (a network's together / one at a time) and gap."""
    sizes = sorted({row.n for row in rows})
    lines = ["| | " + " | ".join(f"n = {n}" for n in sizes) + " |", "|---|" + "--:|" * len(sizes)]
    for method, setting in dict.fromkeys((row.method, row.setting) for row in rows):
        cells = []
        for n in sizes:
            found = [row for row in rows if (row.n, row.method, row.setting) == (n, method, setting)]
            if found and np.isfinite(found[0].gap):
                times = " / ".join(f"{1000 * row.seconds:.3g}" for row in found)
                cells.append(f"{times} ms: {found[0].gap:.2f} ± {found[0].error:.2f}")
            else:
                cells.append("no answer to some" if found else "–")
        lines.append(f"| {method}, {setting} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def picture(rows: Sequence[Row], path: Path) -> None:
    """Draw a panel a size: full markers together, hollow ones an instance at a time."""
    sizes = sorted({row.n for row in rows})
    figure, axes = panel_grid(len(sizes), 2, 5.2, 3.6)
    for n, axis in zip(sizes, axes, strict=True):
        for method, (colour, dash, mark) in LOOKS.items():
            for together in (True, False):
                some = [r for r in rows if (r.n, r.method, r.together > 1) == (n, method, together)]
                some = sorted((r for r in some if np.isfinite(r.gap)), key=lambda row: row.seconds)
                if some:
                    searching = method in ("HGS", "PyVRP", "random + local search")
                    axis.plot(
                        [1000 * r.seconds for r in some],
                        [max(r.gap, 0.01) for r in some],
                        dash,
                        color=colour,
                        marker=mark,
                        markersize=5,
                        linewidth=1.2,
                        alpha=1.0 if together or searching else 0.6,
                        markerfacecolor=colour if together or searching else "white",
                        label=method
                        if searching
                        else f"{method}, {'together' if together else 'one at a time'}",
                    )
        axis.set(xscale="log", yscale="log", title=f"{n} customers")
        for ticked in (axis.xaxis, axis.yaxis):
            ticked.set_major_locator(LogLocator(subs=(1, 3)))
            ticked.set_major_formatter("{x:g}")
            ticked.set_minor_locator(NullLocator())
        axis.set_xlabel("processor milliseconds an instance", fontsize=FONT)
        axis.set_ylabel("gap to HGS converged (%)", fontsize=FONT)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=FONT - 1, frameon=False)
    path.write_bytes(png(figure))


def main() -> None:
    """Measure what is missing; print the table, draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("store")
    parser.add_argument("model")
    parser.add_argument("rows", type=Path)
    parser.add_argument("--version", type=int, default=1)
    parser.add_argument("--attention", help="attention models to measure, too")
    parser.add_argument("--sizes", type=int, nargs="+", default=[20, 50, 100, 200])
    parser.add_argument("--longest", type=float, default=BUDGETS[-1], help="largest budget of a search")
    parser.add_argument("--picture", type=Path, help="draw it here")
    options = parser.parse_args()
    torch.set_num_threads(1)
    store = Store.open(options.store)
    network, card = load_model(store, options.model, options.version)
    network.eval()
    city = find_city(store, card.city_id)
    models = attention_models(store, options.attention) if options.attention else []
    attention = {am.n: load_attention_model(store, am.name, am.n)[0] for am in models}

    known = {(row.n, row.method, row.setting, row.together) for row in read(options.rows)}
    for n in options.sizes:
        kinds: list[Alone | Decoding] = [*alone(options.longest), *decodings(network, attention, n)]
        missing = [k for k in kinds if (n, k.method, k.setting, k.together) not in known]
        if not missing:
            continue
        instances = [InstanceStream(city, 1, "test")(n, i) for i in range(INSTANCES)]
        base = base_costs(city, instances[:ALONE], options.rows.with_suffix(f".{n}.json"))
        decode(network, city, instances[:1], strategy=Greedy())  # what PyTorch does once
        for what in missing:
            if isinstance(what, Alone):
                keep(options.rows, [answered(city, instances, base, what)])
            else:
                keep(options.rows, decoded(city, instances, base, what))
    print(table(read(options.rows)))
    if options.picture:
        picture(read(options.rows), options.picture)


if __name__ == "__main__":
    main()
