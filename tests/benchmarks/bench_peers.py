"""`mcvrp solve` against PyVRP, OR-Tools and VROOM in equal wall-clock time: bench_peers FOLDER FILE.jsonl.

FOLDER has CVRPLIB instances with their .sol, such as its set X, of which --count are taken, evenly spaced by
size. A run is a line of FILE.jsonl, so a measurement can be killed at any time, resumed and extended; --plan
prints what is missing and how long that takes. The gap is to the cost in the .sol.

`mcvrp solve` is the whole command, on all cores, once with tuned PyVRP alone (--by pyvrp). HGS-CVRP and
PyVRP by their defaults and OR-Tools (savings, guided local search) run once on each core at the same time,
and the best counts; VROOM (exploration level 5) has a thread per core. Their limit is for the search alone,
see peer.py.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mcvrp.model.problem import Solution, cost, infeasibility
from mcvrp.tasks.files.cvrplib import VrpFile, parse_sol, parse_vrp
from mcvrp.tasks.support.machine import local_cores

SOLVE = "solve"
_OWN = {SOLVE: (), "tuned": ("--by", "pyvrp")}  # options of `mcvrp solve`
METHODS = {SOLVE: "`mcvrp solve`", "tuned": "`mcvrp solve --by pyvrp`", "hgs": "HGS-CVRP", "pyvrp": "PyVRP"}
METHODS |= {"ortools": "OR-Tools", "vroom": "VROOM"}
_ON_EACH_CORE = ("hgs", "pyvrp", "ortools")
_SETUP = 3.0  # seconds of a run beyond its limit, for the estimate


class Run(NamedTuple):
    """One run of a method; as a dict, it is the key of its line."""

    instance: str
    method: str
    limit: float  # seconds
    seed: int


class Result(NamedTuple):
    """Routes of a run, seconds of its search and of the start-up if known, and the program."""

    solution: Solution
    search: float
    start_up: float | None
    program: str


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the measurements in ``path``; a line that a killed process left unfinished is removed."""
    if not path.exists():
        return []
    data = path.read_bytes()
    complete = data[: data.rfind(b"\n") + 1]
    if len(complete) < len(data):
        path.write_bytes(complete)
    return [json.loads(line) for line in complete.splitlines()]


def append_row(path: Path, row: dict[str, Any]) -> None:
    with path.open("a") as stream:
        stream.write(json.dumps(row) + "\n")


def heading(*titles: str, texts: int = 0) -> None:
    """Print the head of a Markdown table, of whose columns the first ``texts`` hold no numbers."""
    rule = "---|" * texts + "--:|" * (len(titles) - texts)
    print(f"| {' | '.join(titles)} |\n|{rule}", flush=True)


def row(*cells: object) -> None:
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def by_solve(file: Path, vrp: VrpFile, run: Run) -> Result:
    """Return the routes of `mcvrp solve`, without a model."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "mcvrp.flows.cli.main", "solve", str(file), "--json"]
        command += _OWN[run.method]
        options = {"--time-limit": run.limit, "--seed": run.seed, "--out": f"{folder}/r", "--store": folder}
        command += [str(part) for option in options.items() for part in option]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
        seconds = json.loads(done.stdout)["seconds"]
        sol = Path(folder, "r", file.stem + ".sol")
        solution, _ = parse_sol(sol.name, sol.read_bytes(), vrp)
    return Result(solution, seconds["search"], seconds["start_up"], "mcvrp")


def by_peer(python: Path, file: Path, vrp: VrpFile, run: Run) -> Result:
    """Return the best routes of a peer's processes; empty ones if none found feasible routes."""
    script, cores = Path(__file__).with_name("peer.py"), local_cores()
    command = [str(python), str(script), run.method, str(file), str(run.limit)]
    seeds = [1 + (run.seed - 1) * cores + k for k in range(cores if run.method in _ON_EACH_CORE else 1)]
    started = [
        subprocess.Popen([*command, str(seed), str(cores)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for seed in seeds
    ]
    ended = [process.communicate() for process in started]
    for process, (_, error) in zip(started, ended, strict=True):
        if process.returncode:
            sys.exit(f"{run.method} failed on {file.name}: {error.decode()[-2000:]}")
    found = [json.loads(output) for output, _ in ended]
    solutions = [Solution.of(each["routes"]) for each in found if each["routes"]]
    best = min(solutions, key=lambda solution: cost(vrp.city, solution), default=Solution.of([]))
    return Result(best, max(each["search"] for each in found), None, found[0]["program"])


def measured(run: Run, file: Path, python: Path) -> dict[str, Any]:
    """Return the line of ``run``: cost (None without feasible routes), best known cost, and seconds."""
    vrp = parse_vrp(file.name, file.read_bytes())
    sol = file.with_suffix(".sol")
    known, _ = parse_sol(sol.name, sol.read_bytes(), vrp)
    began = time.monotonic()
    result = by_solve(file, vrp, run) if run.method in _OWN else by_peer(python, file, vrp, run)
    wall = time.monotonic() - began
    found = None
    if result.solution.routes:
        assert infeasibility(vrp.instance, result.solution) is None
        found = cost(vrp.city, result.solution)
    return run._asdict() | {
        "nodes": vrp.instance.n + 1,
        "cost": found,
        "best_known": cost(vrp.city, known),
        "wall": wall,
        "search": result.search,
        "start_up": result.start_up,
        "program": result.program,
        "cores": local_cores(),
    }


def chosen(folder: Path, count: int, names: Sequence[str]) -> dict[str, Path]:
    """Return ``count`` instances of ``folder`` by name, evenly spaced by size, or those called ``names``."""
    files = {file.stem: file for file in folder.glob("*.vrp")}
    if not files:
        sys.exit(f"{folder} has no .vrp files: put those of CVRPLIB there, with their .sol")
    if names:
        return {name: files[name] for name in names}
    sizes = {name: parse_vrp(name, file.read_bytes()).instance.n for name, file in files.items()}
    ordered = sorted(files, key=lambda name: (sizes[name], name))
    places = np.linspace(0, len(ordered) - 1, min(count, len(ordered))).round().astype(int)
    return {ordered[k]: files[ordered[k]] for k in places}


class Gaps:
    """Gaps in percent of the runs in a file, means over their seeds."""

    def __init__(self, rows: Sequence[dict[str, Any]]) -> None:
        gaps: dict[tuple[Any, ...], list[float]] = defaultdict(list)
        for each in rows:
            gap = np.nan if each["cost"] is None else 100 * (each["cost"] / each["best_known"] - 1)
            gaps[each["method"], each["limit"], each["instance"]].append(gap)
        self._means = {key: float(np.mean(values)) for key, values in gaps.items()}

    def text(self, method: str, limit: float, instances: Sequence[str]) -> str:
        """Return the mean gap, and its mean difference to `mcvrp solve` with the standard error.

        Means are over the instances that both have solved; their number is added if some are missing.
        """
        own, base = np.array(
            [[self._means.get((by, limit, each), np.nan) for each in instances] for by in (method, SOLVE)]
        )
        paired = method != SOLVE and not np.isnan(base).all()
        solved = ~np.isnan(own + base if paired else own)
        if not solved.any():
            return "–"
        text = f"{own[solved].mean():.2f}"
        if paired:
            differences = (own - base)[solved]
            text += f" ({differences.mean():+.2f}"
            if len(differences) > 1:
                text += f" ± {differences.std(ddof=1) / len(differences) ** 0.5:.2f}"
            text += ")"
        return text if solved.all() else f"{text}, {solved.sum()} of {len(instances)}"


def summary(rows: Sequence[dict[str, Any]]) -> None:
    """Print the tables: gaps of all and of the largest instances, seconds of the whole runs."""
    gaps, nodes = Gaps(rows), {each["instance"]: each["nodes"] for each in rows}
    limits = sorted({each["limit"] for each in rows})
    methods = [method for method in METHODS if any(each["method"] == method for each in rows)]
    largest = max(nodes.values())
    columns = {f"{limit:g} s": (limit, list(nodes)) for limit in limits}
    if (those := [name for name in nodes if nodes[name] == largest]) != list(nodes):
        columns |= {f"{largest:,} nodes, {limit:g} s": (limit, those) for limit in limits}
    print(f"\nMean gap to the best known in %, {len(nodes)} instances; in brackets the mean difference")
    print("to `mcvrp solve` ± its standard error.\n")
    heading("", *columns, texts=1)
    for method in methods:
        row(METHODS[method], *(gaps.text(method, limit, names) for limit, names in columns.values()))
    print("\nSeconds of the whole program beyond the limit, mean (largest):\n")
    heading("", *(f"{limit:g} s" for limit in limits), texts=1)
    for method in methods:
        row(METHODS[method], *(_beyond(rows, method, limit) for limit in limits))
    start_ups = [each["start_up"] for each in rows if each["start_up"]]
    print(f"\nStart-up of `mcvrp solve` in s, mean (largest): {_spread(start_ups)}")
    print("Programs: " + ", ".join(sorted({f"{each['program']} on {each['cores']} cores" for each in rows})))


def _beyond(rows: Sequence[dict[str, Any]], *kind: object) -> str:
    those = [each for each in rows if (each["method"], each["limit"]) == kind]
    return _spread([each["wall"] - each["limit"] for each in those])


def _spread(values: Sequence[float]) -> str:
    return f"{np.mean(values):.2f} ({max(values):.2f})" if values else "–"


def main() -> None:
    """Run what FILE.jsonl lacks and print the tables of all that it has."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--peers", type=Path, default=Path(".venv-peers"), help="environment of peers.txt")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--limits", type=float, nargs="+", default=[2, 10, 60], metavar="SECONDS")
    parser.add_argument("--count", type=int, default=20, help="number of instances")
    parser.add_argument("--instances", nargs="+", default=[], metavar="NAME", help="instead of --count")
    parser.add_argument("--seeds", type=int, default=1, help="runs of each method on each instance")
    parser.add_argument("--plan", action="store_true", help="print what is missing, and end")
    options = parser.parse_args()
    files = chosen(options.folder, options.count, options.instances)
    runs = [
        Run(name, method, limit, seed)
        for limit in options.limits
        for seed in range(1, options.seeds + 1)
        for name in files
        for method in options.methods
    ]
    done = {Run(*(each[field] for field in Run._fields)) for each in read_rows(options.file)}
    missing = [run for run in runs if run not in done]
    minutes = sum(run.limit + _SETUP for run in missing) / 60
    print(f"{len(missing)} of {len(runs)} runs are missing: up to {minutes:.0f} minutes", flush=True)
    if options.plan:
        return
    python = options.peers / "bin" / "python"
    if not python.exists() and any(run.method not in _OWN for run in missing):
        sys.exit(f"{python} does not exist: run make {options.peers}")
    for run in missing:
        line = measured(run, files[run.instance], python)
        append_row(options.file, line)
        took = f"{line['wall']:.1f} of {run.limit:g} s"
        print(f"{run.instance:16} {run.method:8} {line['cost']} in {took}", flush=True)
    if rows := read_rows(options.file):
        summary(rows)


if __name__ == "__main__":
    main()
