"""Benchmark over instances of CVRPLIB: each is a city of its own, and gaps are to the best known solution.

Programs answer, on Ray as in any benchmark; networks do not, as a model knows one city. Answers are stored
in parts, too, so that what was killed goes on, and what is asked for later costs only what is new.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import pandas as pd
from ray.exceptions import RayError

from mcvrp.model.errors import IncompleteError, McvrpError
from mcvrp.storage import layout, markdown
from mcvrp.storage.benchmarks import PartRow, stored_parts, write_results
from mcvrp.storage.store.store import Store
from mcvrp.tasks.benchmark.blocks import Block
from mcvrp.tasks.benchmark.methods import all_methods
from mcvrp.tasks.benchmark.part import Given, Task, WorkerContext, solve_part
from mcvrp.tasks.benchmark.prepare import make_block
from mcvrp.tasks.benchmark.spec import BenchmarkSpec
from mcvrp.tasks.files.csv_cells import csv_bytes
from mcvrp.tasks.files.cvrplib import INSTANCE, SOLUTION, VrpFile, read_vrp
from mcvrp.tasks.files.file_bytes import IN_STORE
from mcvrp.tasks.support.progress import Progress
from mcvrp.tasks.support.ray_session import ray_session
from mcvrp.tasks.support.ray_window import windowed
from mcvrp.tasks.support.text import format_seconds, listed


@dataclass(frozen=True)
class CvrplibResults:
    """Answers of all methods to the instances of a folder.

    ``table`` has a row an instance, method and number of runs: instance, customers, method, runs, cost,
    best_known, gap (per cent), seconds, failure; ``notes`` are what there is to know, a sentence each.
    """

    run: str
    table: pd.DataFrame
    notes: tuple[str, ...]

    @property
    def mean_gaps(self) -> pd.DataFrame:
        """Mean gap of each method and number of runs, over the instances whose best known cost is there."""
        known = self.table.dropna(subset=["gap"])
        means = known.groupby(["method", "runs"], sort=False)["gap"].agg(["mean", "count"])
        return means.reset_index()

    def markdown(self) -> str:
        """Return the answers and the mean gaps as Markdown tables."""
        rows = [_cells(row) for row in self.table.to_dict("records")]
        head = ("Instance", "Customers", "Method", "Runs", "Cost", "Best known", "Gap", "Time")
        parts = [markdown.table(head, rows, "lrlrrrrr")]
        if len(self.mean_gaps):
            means = [
                [row["method"], f"{row['runs']:,}", f"{row['mean']:.2f} %", f"{row['count']:,}"]
                for row in self.mean_gaps.to_dict("records")
            ]
            parts.append(markdown.table(("Method", "Runs", "Mean gap", "Instances"), means, "lrrr"))
        return "\n\n".join([*parts, "\n".join(f"- {markdown.escaped(note)}" for note in self.notes)]) + "\n"


def run_cvrplib(store: Store, folder: str, spec: BenchmarkSpec) -> CvrplibResults:
    """Solve what is missing of the instances in ``folder`` by the programs of ``spec``; write the results.

    Parameters
    ----------
    folder
        Here, or in the store ("store:PATH"); a .sol beside an instance is its best known solution.
    spec
        Its methods, budgets, runs, seed and workers; sizes and instances are the folder's.

    Raises
    ------
    McvrpError
        If there is no instance, one cannot be read, no method is a program, or another benchmark has the
        name; nothing has been solved then.
    IncompleteError
        If workers were lost on the way; everything else is stored.
    """
    methods = tuple(name for name in spec.methods if all_methods()[name].network is None)
    if not methods:
        raise McvrpError(
            f"none of the methods {listed(spec.methods)} is a program, and a model knows one city: give "
            "--set benchmark.methods=['hgs','pyvrp']"
        )
    files = [read_vrp(store, place) for place in vrp_places(store, folder)]
    run = _run_name(store, folder)
    asked = spec.model_copy(update={"run": run, "methods": methods, "instances": 1})
    stored = stored_parts(store, run)
    blocks = [(file, block) for file in files for block in _blocks(store, asked, file)]
    for _, block in blocks:
        block.find(stored)
    _solve(store, asked, blocks)
    rows = [(file, row) for file, block in blocks for row in block.rows()]
    lines = [
        {
            "instance": PurePath(file.name).stem,
            "customers": file.instance.n,
            "method": row.method,
            "runs": runs,
            "cost": min(row.costs[:runs], default=np.inf),
            "best_known": file.best.cost if file.best else np.nan,
            "seconds": seconds,
            "failure": row.failure,
        }
        for file, row in rows
        for runs, seconds in zip(row.samples, row.seconds, strict=True)
    ]
    table = pd.DataFrame(lines)
    table["cost"] = table["cost"].replace(np.inf, np.nan)
    table.insert(6, "gap", 100 * (table["cost"] / table["best_known"] - 1))
    left_out = [name for name in spec.methods if name not in methods]
    notes = tuple(_notes(files, [row for _, row in rows], left_out))
    results = CvrplibResults(run, table, notes)
    store.put(layout.benchmark_cvrplib(run), csv_bytes(table))
    store.put(layout.benchmark_card(run), f"# Benchmark {run}\n\n{results.markdown()}".encode())
    settings = [prefix for _, block in blocks for prefix in block.prefixes]
    write_results(store, run, [row for _, row in rows], settings)  # last: gc takes it for unfinished without
    return results


def vrp_places(store: Store, folder: str) -> list[str]:
    """Return the addresses of the instances in ``folder``, by name; McvrpError where there is none."""
    if folder.startswith(IN_STORE):
        path = folder.removeprefix(IN_STORE).strip("/")
        places = [f"{IN_STORE}{file}" for file in store.list(path)]
    else:
        there = Path(folder).expanduser()
        if not there.is_dir():
            raise McvrpError(
                f"there is no folder {folder} here: name another (in the store it is {IN_STORE}PATH)"
            )
        places = [str(file) for file in sorted(there.iterdir())]
    found = [place for place in places if place.lower().endswith(INSTANCE)]
    if not found:
        raise McvrpError(f"{folder} has no instance of CVRPLIB: put files there that end in {INSTANCE}")
    return found


def _run_name(store: Store, folder: str) -> str:
    name = PurePath(folder.removeprefix(IN_STORE)).name or Path(folder).resolve().name
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._") or "cvrplib"
    others = store.exists(layout.benchmark_results(name))
    if others and not store.exists(layout.benchmark_cvrplib(name)):
        there = store.url(layout.benchmark_dir(name))
        raise McvrpError(f"{there} is a benchmark of another kind: give the folder of instances another name")
    return name


def _blocks(store: Store, spec: BenchmarkSpec, file: VrpFile) -> Iterator[Block]:
    """Yield a block of each method, whose only instance is that of ``file``."""
    n = file.instance.n
    orders = hashlib.sha256(f"{file.capacity} ".encode() + file.demands.astype("<u4").tobytes())
    day = f"{file.city.city_id} {orders.hexdigest()[:16]}"
    for method in spec.methods:
        block = make_block(store, file.city, spec.model_copy(update={"sizes": (n,)}), method, None)
        block.identities = {size: replace(found, city=day) for size, found in block.identities.items()}
        yield block


def _solve(store: Store, spec: BenchmarkSpec, blocks: Sequence[tuple[VrpFile, Block]]) -> None:
    tasks, block_of = list[Task](), dict[str, Block]()
    for file, block in blocks:
        for part in block.missing():
            if block.program:
                tasks.append(Task(part, block.program, Given(file.city, file.instance)))
                block_of[part.path] = block
    if not tasks:
        return
    lost = list[str]()
    with ray_session(spec.workers) as workers, Progress("benchmark", len(tasks), "answers") as progress:
        context = WorkerContext(store, blocks[0][0].city, workers)
        for task, answer in windowed(solve_part, tasks, workers, context, store, refusals=True):
            block = block_of[task.part.path]
            if isinstance(answer, McvrpError):
                block.failures[task.part.n] = str(answer)
            elif isinstance(answer, RayError):
                lost.append(f"{task.part.label}, n={task.part.n} ({type(answer).__name__})")
            else:
                block.take(task.part)
                progress.advance(answer, note=task.part.label)
    if lost:
        raise IncompleteError(
            f"a worker of the benchmark was lost again and again on {listed(lost)}: run again for what is "
            "missing"
        )


def _notes(files: Sequence[VrpFile], rows: Sequence[PartRow], left_out: Sequence[str]) -> Iterator[str]:
    """Yield how costs were taken, what is missing and why, and the programs' settings."""
    taken: dict[str, list[str]] = {}
    for file in files:
        for note in file.notes:
            taken.setdefault(note, []).append(PurePath(file.name).stem)
    yield from (f"{note}: {listed(names)}" for note, names in taken.items())
    if without := [PurePath(file.name).stem for file in files if file.best is None]:
        yield f"no {SOLUTION} beside them, so no gap: {listed(without)}"
    if left_out:
        yield f"left out, as a model knows one city: {listed(left_out)}"
    yield from dict.fromkeys(f"{row.method}: {row.failure or row.configuration}" for row in rows)
    for row in rows:
        if row.costs:
            yield f"{row.workers:,} at once on {row.machine}; times are wall-clock"
            return


def _cells(row: Mapping[Hashable, Any]) -> list[str]:
    def number(name: str, form: str) -> str:
        return "–" if np.isnan(row[name]) else format(row[name], form)

    return [
        markdown.escaped(row["instance"]),
        f"{row['customers']:,}",
        row["method"],
        f"{row['runs']:,}",
        number("cost", ",.10g"),
        number("best_known", ",.10g"),
        "–" if np.isnan(row["gap"]) else f"{row['gap']:.2f} %",
        format_seconds(row["seconds"]) if row["seconds"] else "–",
    ]
