"""The stage that compares: every method on the same held-out instances, what is missing only.

Heuristics run on Ray, one instance a core; the network runs in this process on all cores.
Answers are stored in parts whose names carry a hash of what decides them, so a run that was
killed goes on, and a changed setting or another model redoes what it changes and no more.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import ray

from model.errors import IncompleteError, McvrpError
from model.instances import InstanceStream
from model.problem import City
from storage.benchmarks import PartRow, read_part, write_results
from storage.models import ModelCard, load_model, model_card
from storage.store import Store
from tasks.benchmark_part import Part, solve_part
from tasks.benchmark_spec import LABELS, NEURAL, BenchmarkSpec, MethodName
from tasks.benchmark_summary import BenchmarkSummary, summarise
from tasks.benchmark_unseen import require_unseen
from tasks.progress import Progress
from tasks.ray_cluster import ray_session
from tasks.solvers import Solver

if TYPE_CHECKING:
    from model.network import FmMcvrp

_PART_SECONDS = 60.0  # what a kill may cost where the time of a run is known
_PART_RUNS = 20  # runs of a heuristic in a part where it is not
_PART_PATHS, _PART_INSTANCES = 4096, 256  # decoded in a part
_WINDOW = 2  # parts a worker in Ray's hands: one at work, one waiting
_WAIT_SECONDS = 0.5  # how long Ctrl-C may wait for us


def run_benchmark(
    store: Store, city: City, spec: BenchmarkSpec, model_name: str | None = None, version: int | None = None
) -> BenchmarkSummary:
    """Solve what is missing, then write results, tables and summary; return the summary.

    A method whose solver is not installed, or cannot take the city, keeps its rows, with the
    reason.

    Parameters
    ----------
    model_name, version
        The model, the latest version by default; None where no method needs one.

    Raises
    ------
    McvrpError
        If the city is too small, no capacity rule covers a size, the model is missing, another
        city's or trained on a test instance, or a stored part is damaged; nothing has been solved then.
    IncompleteError
        If workers were lost on the way; everything else is stored.
    """
    card = _check(store, city, spec, model_name, version)
    blocks = [_block(store, city, spec, method, card) for method in spec.methods]
    heuristics = [block for block in blocks if block.method not in NEURAL]
    if any(block.missing for block in heuristics):
        with ray_session(
            spec.workers, shared_bytes=0 if city.matrix is None else city.matrix.nbytes
        ) as workers:
            _Heuristics(store, city, heuristics, workers).run()
    model = None
    if card:
        model, _ = load_model(store, card.name, card.version)
        model = _on_best_device(model)
        for block in blocks:
            if block.method in NEURAL:
                _decode(store, city, spec, block, model, card)
    rows = [row for block in blocks for row in block.rows(store, spec)]
    write_results(store, spec.run, rows)
    accuracy = _problem_accuracy(model, city, spec) if model else None
    return summarise(
        store, spec.run, city, spec.rules, card=card, accuracy=accuracy, p=spec.p, samples=spec.samples[-1]
    )


def _check(
    store: Store, city: City, spec: BenchmarkSpec, model_name: str | None, version: int | None
) -> ModelCard | None:
    for n in spec.sizes:
        if n > city.customers:
            raise McvrpError(f"benchmark size {n}: the city has {city.customers} customers, ask for no more")
        spec.rules.capacity_range(n)
    if not spec.neural:
        return None
    if model_name is None:
        raise McvrpError("the methods fm-gs and fm-ns need a model: name one, or leave them out")
    card = model_card(store, model_name, version)
    card.require_city(city)
    require_unseen(store, city, spec, card.dataset)
    return card


# Blocks --------------------------------------------------------------------------------------


@dataclass
class _Block:
    """One method: its solver, or why there is none, and which of its parts are there."""

    method: MethodName
    parts: list[Part]
    solver: Solver | None
    done: dict[str, list[PartRow]]
    failure: str | None = None

    @property
    def missing(self) -> list[Part]:
        if self.failure:
            return []
        return [part for part in self.parts if part.path not in self.done]

    def rows(self, store: Store, spec: BenchmarkSpec) -> Iterator[PartRow]:
        """Yield the answers, or rows that say why there are none."""
        for part in self.parts:
            if part.path in self.done:
                yield from self.done[part.path]
            elif self.failure is None:
                yield from read_part(store, part.path)
            else:
                none = (0.0,) * len(part.samples)
                for index in range(part.start, part.stop):
                    yield PartRow(
                        method=LABELS[self.method],
                        n=part.n,
                        index=index,
                        samples=part.samples,
                        seconds=none,
                        costs=(),
                        routes=None,
                        seed=spec.seed,
                        device="–",
                        workers=1,
                        machine="",
                        version="",
                        configuration="not run",
                        failure=self.failure,
                    )


def _block(
    store: Store, city: City, spec: BenchmarkSpec, method: MethodName, card: ModelCard | None
) -> _Block:
    """Return the parts of ``method`` and read those that are there."""
    solver, failure = None, None
    if method not in NEURAL:
        try:
            solver = _heuristic(spec, method)
        except McvrpError as error:
            failure = str(error)
    samples = spec.samples_of(method)
    identity = {
        "city": city.city_id,
        "seed": spec.seed,
        "rules": [spec.demand, spec.capacity],
        "samples": samples,
        "settings": solver.configuration + solver.version if solver else "",
        "model": card.weights_sha256 if card and method in NEURAL else "",
        "sampling": [spec.p, _rotations(spec, card)] if method == "fm-ns" else None,
    }
    key = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:10]
    rows = _part_rows(spec, method)
    parts = [
        Part(
            run=spec.run,
            block=f"{method}-{key}",
            n=n,
            start=start,
            stop=min(start + rows, count),
            samples=samples,
            seed=spec.seed,
            rules=spec.rules,
            together=method in NEURAL,
        )
        for n, count in spec.counts.items()
        for start in range(0, count, rows)
    ]
    done = {part.path: read_part(store, part.path) for part in parts if store.exists(part.path)}
    return _Block(method, parts, solver, done, failure)


def _part_rows(spec: BenchmarkSpec, method: MethodName) -> int:
    most, limit = spec.samples_of(method)[-1], spec.time_limit(method)
    if method in NEURAL:
        return max(1, min(_PART_INSTANCES, _PART_PATHS // most))
    runs = _PART_RUNS if limit is None else min(_PART_RUNS, int(_PART_SECONDS / limit))
    return max(1, runs // most)


def _heuristic(spec: BenchmarkSpec, method: MethodName) -> Solver:
    if method == "hgs":
        from tasks.solvers.hgs import HGS

        return HGS(spec.time_limit("hgs"), spec.hgs_iterations, spec.hgs_fleet)
    if method == "pyvrp":
        from tasks.solvers.pyvrp import PyVRP

        return PyVRP(spec.time_limit("pyvrp"), spec.pyvrp_iterations)
    from tasks.solvers.lkh3 import LKH3

    return LKH3(spec.lkh_max_trials, spec.lkh_runs)


# Heuristics, on Ray --------------------------------------------------------------------------


@dataclass
class _Heuristics:
    """The driver: a bounded number of parts in Ray's hands."""

    store: Store
    city: City
    blocks: list[_Block]
    workers: int

    def run(self) -> None:
        """Solve every missing part; a solver that refuses the task ends its method, not the others."""
        city = ray.put(self.city)
        solve = ray.remote(num_cpus=1)(solve_part)
        waiting = deque((block, part) for block in self.blocks for part in block.missing)
        total = sum(part.rows for block in self.blocks for part in block.parts if not block.failure)
        missing = sum(part.rows for _, part in waiting)
        flying: dict[ray.ObjectRef, tuple[_Block, Part]] = {}
        lost = ""
        with Progress("benchmark, heuristics", total, "instances", done=total - missing) as progress:
            while waiting or flying:
                while waiting and len(flying) < _WINDOW * self.workers:
                    block, part = waiting.popleft()
                    if block.failure is None:
                        reference = solve.remote(self.store, city, part, block.solver, self.workers)
                        flying[reference] = (block, part)
                if not flying:
                    break
                ready, _ = ray.wait(list(flying), num_returns=1, timeout=_WAIT_SECONDS)
                for reference in ready:
                    block, part = flying.pop(reference)
                    try:
                        progress.advance(ray.get(reference), note=LABELS[block.method])
                    except ray.exceptions.RayTaskError as error:
                        if not isinstance(error.cause, McvrpError):
                            raise
                        block.failure = str(error.cause)
                    except ray.exceptions.RayError as error:
                        lost = f"{LABELS[block.method]}, n={part.n} ({type(error).__name__})"
        if lost:
            raise IncompleteError(
                f"a worker of the benchmark was lost on {lost}: run again for what is missing"
            )


# The network, here ---------------------------------------------------------------------------


def _on_best_device(model: FmMcvrp) -> FmMcvrp:
    import torch

    return model.to("cuda" if torch.cuda.is_available() else "cpu")


def _decode(
    store: Store, city: City, spec: BenchmarkSpec, block: _Block, model: FmMcvrp, card: ModelCard
) -> None:
    from model.decoding import Greedy, Nucleus
    from tasks.solvers.fm_mcvrp import FmMcvrpSolver

    if not block.missing:
        return
    strategy = Greedy() if block.method == "fm-gs" else Nucleus(spec.p)
    name = f"{card.name} version {card.version}"
    solver = FmMcvrpSolver(model, strategy, rotations=_rotations(spec, card), version=name)
    first = block.missing[0]
    warm_up = [InstanceStream(city, spec.seed, "test", spec.rules)(first.n, first.start)]
    list(solver.solve(city, warm_up, samples=1, seed=spec.seed))  # what only the first call pays
    total = sum(part.rows for part in block.parts)
    missing = sum(part.rows for part in block.missing)
    with Progress(f"benchmark, {solver.label}", total, "instances", done=total - missing) as progress:
        for part in block.missing:
            progress.advance(solve_part(store, city, part, solver, workers=1))


def _rotations(spec: BenchmarkSpec, card: ModelCard | None) -> int:
    return spec.rotations if card and card.rotation_trained else 1


def _problem_accuracy(model: FmMcvrp, city: City, spec: BenchmarkSpec) -> float:
    from tasks.solvers.fm_mcvrp import problem_accuracy

    stream = InstanceStream(city, spec.seed, "test", spec.rules)
    held_out = (stream(n, i) for n, count in spec.counts.items() for i in range(count))
    return problem_accuracy(model, city, held_out)
