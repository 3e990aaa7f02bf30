"""Where a model pays: gap against processor seconds an instance (bench_regimes STORE MODEL ROWS.jsonl).

Gaps to HGS with its budget `converged` on held-out instances of the model's city (split "test"), with
standard errors; processor seconds of one core. The model answers 1,000 instances together, and one at
a time; HGS and PyVRP get budgets down to a millisecond; random solutions with the model's local search
show what that does alone. What is measured is kept in ROWS.jsonl, and not measured again; the table of all
of it is printed, and --picture draws it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from mcvrp.model.decoding import decode
from mcvrp.model.instances import InstanceStream
from mcvrp.model.network import FmMcvrp
from mcvrp.model.problem import City, Instance, Solution, cost, infeasibility
from mcvrp.model.strategies import Beam, Greedy, Nucleus, Strategy
from mcvrp.storage.cities import find_city
from mcvrp.storage.models.models import load_model
from mcvrp.storage.store.store import Store
from mcvrp.tasks.solvers.budgets import budget_for
from mcvrp.tasks.solvers.fm_mcvrp import FmMcvrpSolver
from mcvrp.tasks.solvers.hgs import HGS
from mcvrp.tasks.solvers.local_search import polish
from mcvrp.tasks.solvers.pyvrp import PyVRP
from mcvrp.tasks.solvers.solver import Solver
from mcvrp.tasks.support.pictures import BLUE, FONT, GREEN, ORANGE, PINK, panel_grid, png
from tests.support.sweep import random_solution

INSTANCES, PATHS = 1000, 16_000  # decoded together: so many instances, or so many paths if those are fewer
ALONE = 100  # instances one at a time
BUDGETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # seconds of HGS and PyVRP
LOOKS = {
    "HGS": (BLUE, "-", "o"),
    "PyVRP": (GREEN, "-", "s"),
    "samples": (ORANGE, "--", "D"),
    "beam": (PINK, "--", "P"),
    "samples + local search": (ORANGE, "-", "X"),
    "beam + local search": (PINK, "-", "*"),
    "random + local search": ("black", ":", "v"),
}


@dataclass(frozen=True)
class Row:
    """A method in one setting: mean processor seconds an instance, mean gap (%) and its standard error."""

    n: int
    method: str
    setting: str
    together: int
    seconds: float
    gap: float
    error: float


@dataclass(frozen=True)
class Decoding:
    """A strategy of the model: ``samples`` answers, for ``together`` instances at once."""

    method: str
    setting: str
    strategy: Strategy
    samples: int
    together: int


@dataclass(frozen=True)
class Alone:
    """What answers one instance after the other, without the model."""

    method: str
    setting: str
    answer: Callable[[City, Instance], Solution | None]
    together: int = 1


def decodings() -> Iterator[Decoding]:
    """Yield what is asked of the model."""
    strategies: list[tuple[str, Strategy, int]] = [("samples", Greedy(), 1)]
    strategies += [("samples", Nucleus(1.0), samples) for samples in (4, 16, 100)]
    strategies += [("beam", Beam(width), width) for width in (4, 16, 64)]
    for method, strategy, samples in strategies:
        for together in (min(INSTANCES, PATHS // samples), 1):
            named = "greedy" if samples == 1 else str(samples)
            yield Decoding(method, named, strategy, samples, together)


def alone(longest: float) -> Iterator[Alone]:
    """Yield the searches, up to ``longest`` seconds, and local search of random solutions."""
    for seconds in (seconds for seconds in BUDGETS if seconds <= longest):
        yield Alone("HGS", f"{seconds:g} s", by_search(HGS(time_limit=seconds)))
        yield Alone("PyVRP", f"{seconds:g} s", by_search(PyVRP(time_limit=seconds)))
    for samples in (1, 4, 16, 100):
        yield Alone("random + local search", str(samples), by_chance(samples))


def by_search(solver: Solver) -> Callable[[City, Instance], Solution | None]:
    """Return how ``solver`` answers an instance."""

    def answer(city: City, instance: Instance) -> Solution | None:
        (found,) = solver.solve(city, [instance], samples=1, seed=1)
        return found.solution

    return answer


def by_chance(samples: int) -> Callable[[City, Instance], Solution]:
    """Return how local search of so many random solutions does: the model's have to be better than these."""
    rng = np.random.default_rng(1)

    def answer(city: City, instance: Instance) -> Solution:
        starts = [random_solution(instance, rng) for _ in range(samples)]
        return min(polish(city, instance, starts), key=lambda solution: cost(city, solution))

    return answer


def decoded(
    network: FmMcvrp, city: City, instances: Sequence[Instance], base: NDArray[np.float64], what: Decoding
) -> Iterator[Row]:
    """Yield what decoding takes and reaches, then the same with local search of each sample."""
    solver = FmMcvrpSolver(network, what.strategy)
    if what.together > 1:
        groups = [instances[: what.together]]
    else:
        groups = [[instance] for instance in instances[: len(base)]]
    seconds, plain, polished = np.zeros(2), [], []
    for group in groups:
        began = time.thread_time()
        answers = solver.decoded(city, group, what.samples, 1)
        seconds[0] += time.thread_time() - began
        for instance, answer in zip(group, answers, strict=True):
            began = time.thread_time()
            found = [answer.solution(sample) for sample in range(what.samples)]
            better = [cost(city, solution) for solution in polish(city, instance, found)]
            seconds[1] += time.thread_time() - began
            plain.append(checked(city, instance, answer.best))
            polished.append(min(better))
    seconds = np.cumsum(seconds) / len(plain)
    for k, (name, costs) in enumerate({"": plain, " + local search": polished}.items()):
        yield row(what.method + name, what.setting, instances[0].n, what.together, seconds[k], costs, base)


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
    costs: Sequence[float],
    base: NDArray[np.float64],
) -> Row:
    """Return the row of ``costs``, of whose instances the first have a base, ``(b,)``."""
    gaps = 100 * (np.array(costs[: len(base)]) / base[: len(costs)] - 1)
    error = float(gaps.std(ddof=1) / len(gaps) ** 0.5)
    return Row(n, method, setting, together, float(seconds), float(gaps.mean()), error)


def checked(city: City, instance: Instance, solution: Solution | None) -> float:
    """Return the cost of a solution that has to be feasible, infinite where there is none."""
    if solution is None:
        return np.inf
    assert infeasibility(instance, solution) is None
    return cost(city, solution)


def base_costs(city: City, instances: Sequence[Instance]) -> NDArray[np.float64]:
    """Return the costs of HGS `converged`."""
    solver = HGS(**budget_for("converged", instances[0].n).options())
    return np.array([cost(city, solver.search(city, instance, 1)) for instance in instances])


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
    """Return a Markdown table: milliseconds an instance and gap of each method, sizes side by side."""
    sizes = sorted({row.n for row in rows})
    lines = ["| method | " + " | ".join(f"n = {n}: ms | gap (%)" for n in sizes) + " |"]
    lines.append("|---|" + "--:|--:|" * len(sizes))
    kinds = dict.fromkeys((row.method, row.setting, row.together > 1) for row in rows)
    for kind in kinds:
        named = f"{kind[0]}, {kind[1]}" + (", together" if kind[2] else "")
        cells = []
        for n in sizes:
            found = [r for r in rows if r.n == n and (r.method, r.setting, r.together > 1) == kind]
            shown = (
                f"{1000 * found[0].seconds:.3g} | {found[0].gap:.2f} ± {found[0].error:.2f}"
                if found
                else "– | –"
            )
            cells.append(shown)
        lines.append(f"| {named} | " + " | ".join(cells) + " |")
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
                        [r.seconds for r in some],
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
        axis.set_xlabel("processor seconds an instance", fontsize=FONT)
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
    parser.add_argument("--sizes", type=int, nargs="+", default=[20, 50, 100, 200])
    parser.add_argument("--longest", type=float, default=BUDGETS[-1], help="largest budget of a search")
    parser.add_argument("--picture", type=Path, help="draw it here")
    options = parser.parse_args()
    torch.set_num_threads(1)
    store = Store.open(options.store)
    network, card = load_model(store, options.model, options.version)
    network.eval()
    city = find_city(store, card.city_id)

    known = {(row.n, row.method, row.setting, row.together) for row in read(options.rows)}
    for n in options.sizes:
        kinds: Iterator[Alone | Decoding] = itertools.chain(alone(options.longest), decodings())
        missing = [k for k in kinds if (n, k.method, k.setting, k.together) not in known]
        if not missing:
            continue
        instances = [InstanceStream(city, 1, "test")(n, i) for i in range(INSTANCES)]
        base = base_costs(city, instances[:ALONE])
        decode(network, city, instances[:1], strategy=Greedy())  # what PyTorch does once
        for what in missing:
            if isinstance(what, Alone):
                keep(options.rows, [answered(city, instances, base, what)])
            else:
                keep(options.rows, decoded(network, city, instances, base, what))
    print(table(read(options.rows)))
    if options.picture:
        picture(read(options.rows), options.picture)


if __name__ == "__main__":
    main()
