"""Benchmark on CVRPLIB instances: each is its own city, gaps are relative to the best known solution.

Only solvers run, on Ray; a model belongs to one city. Answers are stored in parts, so a killed run resumes,
and later requests cost only what is new.
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

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import gap
from mcvrp.storage import layout, markdown
from mcvrp.storage.benchmarks import PartRow, stored_parts, write_results
from mcvrp.storage.store.store import Store
from mcvrp.tasks.benchmark.blocks import Block
from mcvrp.tasks.benchmark.methods import all_methods
from mcvrp.tasks.benchmark.part import Task, WorkerContext
from mcvrp.tasks.benchmark.prepare import make_block
from mcvrp.tasks.benchmark.solving import require_none, solve_on_ray
from mcvrp.tasks.benchmark.spec import BenchmarkSpec
from mcvrp.tasks.files.csv_cells import csv_bytes
from mcvrp.tasks.files.cvrplib import INSTANCE, SOLUTION, VrpFile, read_vrp
from mcvrp.tasks.files.file_bytes import IN_STORE
from mcvrp.tasks.support.progress import Progress
from mcvrp.tasks.support.ray_session import ray_session
from mcvrp.tasks.support.text import format_seconds, listed


@dataclass(frozen=True)
class CvrplibResults:
    """Answers of all methods to the instances of a folder.

    ``table`` has one row per instance, method and number of runs, with the columns instance, customers,
    method, runs, cost, best_known, gap (percent), seconds and failure. ``notes`` are one sentence each.
    """

    run: str
    table: pd.DataFrame
    notes: tuple[str, ...]

    def markdown(self) -> str:
        """Return answers, mean gaps and notes as Markdown."""
        rows = [_cells(row) for row in self.table.to_dict("records")]
        head = ("Instance", "Customers", "Method", "Runs", "Cost", "Best known", "Gap", "Time")
        parts = [markdown.table(head, rows, "lrlrrrrr")]
        with_gap = self.table.dropna(subset=["gap"])
        if len(with_gap):
            gaps = with_gap.groupby(["method", "runs"], sort=False)["gap"]
            means = [
                [row["method"], f"{row['runs']:,}", f"{row['mean']:.2f} %", f"{row['count']:,}"]
                for row in gaps.agg(["mean", "count"]).reset_index().to_dict("records")
            ]
            parts.append(markdown.table(("Method", "Runs", "Mean gap", "Instances"), means, "lrrr"))
        return "\n\n".join([*parts, "\n".join(f"- {markdown.escaped(note)}" for note in self.notes)]) + "\n"


def run_cvrplib(store: Store, folder: str, spec: BenchmarkSpec) -> CvrplibResults:
    """Solve what is missing of the instances in ``folder`` with the solvers of ``spec``; write the results.

    ``folder`` is a local folder, or "store:PATH" in the store. A .sol file beside an instance is its best
    known solution. Sizes and instances of ``spec`` are those of the folder. McvrpError if there is no valid
    instance, no method is a solver, or another benchmark has the name; IncompleteError if workers were lost,
    all other answers are then stored.
    """
    methods = tuple(name for name in spec.methods if all_methods()[name].network is None)
    if not methods:
        raise McvrpError(
            f"benchmark.methods = {list(spec.methods)} has no solver, and a model is tied to one city: give "
            "--set benchmark.methods=['hgs','pyvrp']"
        )
    files = [read_vrp(store, path) for path in vrp_paths(store, folder)]
    run = _run_name(store, folder)
    spec, requested = spec.model_copy(update={"run": run, "methods": methods, "instances": 1}), spec.methods
    # Files with the same instance share their answers.
    keys = [(file, (_instance(file), method)) for file in files for method in methods]
    blocks = {key: (file, _block(store, spec, file, key)) for file, key in keys}
    stored = stored_parts(store, run)
    for _, block in blocks.values():
        block.find(stored)
    lost = _solve(store, spec, list(blocks.values()))
    answers = [(file, row) for file, key in keys for row in blocks[key][1].rows()]
    rows = [row for _, row in answers]
    notes = tuple(_notes(files, rows, [name for name in requested if name not in methods]))
    results = CvrplibResults(run, _table(answers), notes)
    store.put(layout.benchmark_cvrplib(run), csv_bytes(results.table))
    store.put(
        layout.benchmark_card(run), markdown.card(f"Benchmark `{run}`", {}, results.markdown()).encode()
    )
    write_results(store, run, rows)
    require_none(lost)
    return results


def vrp_paths(store: Store, folder: str) -> list[str]:
    """Return the paths of the instances in ``folder``, sorted by name; McvrpError if it has no instance."""
    if folder.startswith(IN_STORE):
        inside = folder.removeprefix(IN_STORE).strip("/")
        paths = [
            f"{IN_STORE}{file}" for file in store.list(inside) if PurePath(file).parent == PurePath(inside)
        ]
    elif Path(folder).expanduser().is_dir():
        paths = [str(file) for file in sorted(Path(folder).expanduser().iterdir())]
    else:
        raise McvrpError(
            f"there is no local folder {folder}: give another one, or {IN_STORE}PATH for one in the store"
        )
    instances = [path for path in paths if path.lower().endswith(INSTANCE)]
    if not instances:
        raise McvrpError(f"{folder} has no CVRPLIB instance: add files that end in {INSTANCE}")
    return instances


def _run_name(store: Store, folder: str) -> str:
    name = PurePath(folder.removeprefix(IN_STORE)).name or Path(folder).resolve().name
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._") or "cvrplib"
    if store.exists(layout.benchmark_results(name)) and not store.exists(layout.benchmark_cvrplib(name)):
        url = store.url(layout.benchmark_dir(name))
        raise McvrpError(f"{url} is a benchmark of another kind: rename the folder of instances")
    return name


def _instance(file: VrpFile) -> str:
    """Return what stands for the city in the identity of answers: costs and orders of ``file``."""
    orders = hashlib.sha256(f"{file.capacity} ".encode() + file.demands.astype("<u4").tobytes())
    return f"{file.city.city_id} {orders.hexdigest()[:16]}"


def _block(store: Store, spec: BenchmarkSpec, file: VrpFile, key: tuple[str, str]) -> Block:
    """Return the block of a method, whose only instance is that of ``file``; ``key`` has both names."""
    instance, method = key
    block = make_block(store, file.city, spec.model_copy(update={"sizes": (file.instance.n,)}), method)
    block.identities = {n: replace(identity, city=instance) for n, identity in block.identities.items()}
    return block


def _solve(store: Store, spec: BenchmarkSpec, blocks: Sequence[tuple[VrpFile, Block]]) -> list[str]:
    """Solve the missing answers; return those whose workers were lost."""
    tasks = [
        (block, Task(part, block.program, (file.city, file.instance)))
        for file, block in blocks
        if block.program
        for part in block.missing()
    ]
    if not tasks:
        return []
    with ray_session(spec.workers) as workers, Progress("benchmark", len(tasks), "answers") as progress:
        return solve_on_ray(WorkerContext(store, blocks[0][0].city, workers), tasks, progress)


def _table(answers: Sequence[tuple[VrpFile, PartRow]]) -> pd.DataFrame:
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
        for file, row in answers
        for runs, seconds in zip(row.samples, row.seconds, strict=True)
    ]
    table = pd.DataFrame(lines)
    table["cost"] = table["cost"].replace(np.inf, np.nan)
    table.insert(6, "gap", gap(table["cost"].to_numpy(), table["best_known"].to_numpy()))
    return table


def _notes(files: Sequence[VrpFile], rows: Sequence[PartRow], left_out: Sequence[str]) -> Iterator[str]:
    """Yield how costs were read, what is missing and why, and the settings of the solvers."""
    names: dict[str, list[str]] = {}
    for file in files:
        for note in file.notes:
            names.setdefault(note, []).append(PurePath(file.name).stem)
    yield from (f"{note}: {listed(stems)}" for note, stems in names.items())
    if without := [PurePath(file.name).stem for file in files if file.best is None]:
        yield f"no gap, because there is no {SOLUTION} file: {listed(without)}"
    if left_out:
        yield f"left out, because a model is tied to one city: {listed(left_out)}"
    yield from dict.fromkeys(f"{row.method}: {row.failure or row.configuration}" for row in rows)
    if solved := next((row for row in rows if row.costs), None):
        yield f"{solved.workers:,} instances in parallel on {solved.machine}; times are wall-clock"


def _cells(row: Mapping[Hashable, Any]) -> list[str]:
    def number(name: str, form: str, unit: str = "") -> str:
        return "–" if np.isnan(row[name]) else format(row[name], form) + unit

    return [
        markdown.escaped(row["instance"]),
        f"{row['customers']:,}",
        row["method"],
        f"{row['runs']:,}",
        number("cost", ",.10g"),
        number("best_known", ",.10g"),
        number("gap", ".2f", " %"),
        format_seconds(row["seconds"]) if row["seconds"] else "–",
    ]
