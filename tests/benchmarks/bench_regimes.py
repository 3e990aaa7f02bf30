"""Where a model pays: gap against processor seconds an instance (bench_regimes STORE MODEL ROWS.jsonl).

Gaps to HGS with its budget `converged` on held-out instances of the model's city (split "test"), with
standard errors; processor seconds of one core. The model answers 1,000 instances together, and one at
a time; HGS and PyVRP get budgets down to a millisecond. What is measured is kept in ROWS.jsonl, and
not measured again; the table of all of it is printed, and --picture draws it.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City, Instance, cost, infeasibility
from mcvrp.model.strategies import Beam, Greedy, Nucleus, Strategy
from mcvrp.storage.cities import find_city
from mcvrp.storage.models.models import load_model
from mcvrp.storage.store.store import Store
from mcvrp.tasks.solvers.budgets import budget_for
from mcvrp.tasks.solvers.fm_mcvrp import FmMcvrpSolver
from mcvrp.tasks.solvers.hgs import HGS
from mcvrp.tasks.solvers.local_search import Polished
from mcvrp.tasks.solvers.pyvrp import PyVRP
from mcvrp.tasks.solvers.solver import Answer, Solver
from mcvrp.tasks.support.pictures import BLUE, FONT, GREEN, ORANGE, PINK, panel_grid, png

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
class Setting:
    """What a row measures: ``samples`` answers of ``solver``, for ``together`` instances at once."""

    method: str
    setting: str
    solver: Solver
    samples: int
    together: int


def settings(model: Callable[[Strategy], FmMcvrpSolver], longest: float) -> Iterator[Setting]:
    """Yield all settings; budgets up to ``longest`` seconds."""
    strategies: list[tuple[str, Strategy, int]] = [("samples", Greedy(), 1)]
    strategies += [("samples", Nucleus(1.0), samples) for samples in (4, 16, 100)]
    strategies += [("beam", Beam(width), width) for width in (4, 16, 64)]
    for method, strategy, samples in strategies:
        solver = model(strategy)
        named = "greedy" if samples == 1 else str(samples)
        for together in (min(INSTANCES, PATHS // samples), 1):
            yield Setting(method, named, solver, samples, together)
            yield Setting(f"{method} + local search", named, Polished(solver), samples, together)
    for budget in (budget for budget in BUDGETS if budget <= longest):
        yield Setting("HGS", f"{budget:g} s", HGS(time_limit=budget), 1, 1)
        yield Setting("PyVRP", f"{budget:g} s", PyVRP(time_limit=budget), 1, 1)


def measured(city: City, instances: Sequence[Instance], base: NDArray[np.float64], what: Setting) -> Row:
    """Return what ``what`` takes and reaches; gaps of the instances ``(b,)`` that have a base."""
    groups = [instances[: what.together]] if what.together > 1 else [[i] for i in instances[: len(base)]]
    began = time.thread_time()
    answers = [
        answer for group in groups for answer in what.solver.solve(city, group, samples=what.samples, seed=1)
    ]
    seconds = (time.thread_time() - began) / len(answers)
    costs = np.array([checked(city, *pair) for pair in zip(instances, answers, strict=False)])
    gaps = 100 * (costs[: len(base)] / base[: len(costs)] - 1)
    return Row(
        n=instances[0].n,
        method=what.method,
        setting=what.setting,
        together=what.together,
        seconds=seconds,
        gap=float(gaps.mean()),
        error=float(gaps.std(ddof=1) / len(gaps) ** 0.5),
    )


def checked(city: City, instance: Instance, answer: Answer) -> float:
    """Return the cost of a feasible answer, infinite where there is none."""
    if answer.solution is None:
        return np.inf
    assert infeasibility(instance, answer.solution) is None
    return cost(city, answer.solution)


def base_costs(city: City, instances: Sequence[Instance]) -> NDArray[np.float64]:
    """Return the costs of HGS `converged`."""
    solver = HGS(**budget_for("converged", instances[0].n).options())
    return np.array([cost(city, solver.search(city, instance, 1)) for instance in instances])


def read(path: Path) -> list[Row]:
    """Return the rows that ``path`` holds."""
    return [Row(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


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
                    searching = method in ("HGS", "PyVRP")
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

    def model(strategy: Strategy) -> FmMcvrpSolver:
        return FmMcvrpSolver(network, strategy, version=f"{card.name} {card.version}")

    known = {(row.n, row.method, row.setting, row.together) for row in read(options.rows)}
    for n in options.sizes:
        wanted = [
            each
            for each in settings(model, options.longest)
            if (n, each.method, each.setting, each.together) not in known
        ]
        if not wanted:
            continue
        instances = [InstanceStream(city, 1, "test")(n, i) for i in range(INSTANCES)]
        base = base_costs(city, instances[:ALONE])
        list(model(Greedy()).solve(city, instances[:1], samples=1, seed=1))  # what PyTorch does once
        for each in wanted:
            row = measured(city, instances, base, each)
            with options.rows.open("a") as out:
                out.write(json.dumps(asdict(row)) + "\n")
            print(row, flush=True)
    print(table(read(options.rows)))
    if options.picture:
        picture(read(options.rows), options.picture)


if __name__ == "__main__":
    main()
