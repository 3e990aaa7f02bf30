"""The networks of a benchmark, decoded in this process on its best device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from model.errors import McvrpError
from model.instances import InstanceStream
from model.problem import City
from storage.models import ModelCard
from storage.store_errors import StoreError
from tasks.benchmark_blocks import Block
from tasks.benchmark_methods import rotations
from tasks.benchmark_part import Task, Workshop, solve_part
from tasks.benchmark_spec import BenchmarkSpec, MethodName
from tasks.progress import Progress
from tasks.solvers import Solver

if TYPE_CHECKING:
    from model.network import FmMcvrp
    from tasks.solvers.fm_mcvrp import FmMcvrpSolver


def on_best_device(model: FmMcvrp) -> FmMcvrp:
    """Return ``model`` on the GPU, if there is one."""
    import torch

    return model.to("cuda" if torch.cuda.is_available() else "cpu")


def sampler(spec: BenchmarkSpec, model: FmMcvrp, card: ModelCard) -> FmMcvrpSolver:
    """Return the model as it samples."""
    from model.decoding import Nucleus
    from tasks.solvers.fm_mcvrp import FmMcvrpSolver

    strategy = Nucleus(p=spec.p, k=spec.top_k, temperature=spec.temperature)
    return FmMcvrpSolver(model, strategy, rotations(spec, card), f"{card.name} version {card.version}")


def network(spec: BenchmarkSpec, method: MethodName, model: FmMcvrp, card: ModelCard) -> Solver:
    """Return the solver of a method that decodes ``model`` and needs no other program."""
    from dataclasses import replace

    from model.decoding import Beam, Greedy

    samples = sampler(spec, model, card)
    if method == "fm-gs":
        return replace(samples, strategy=Greedy())
    if method == "fm-bs":
        return replace(samples, strategy=Beam(spec.beam_width), rotations=1)
    return samples


def decode_missing(shop: Workshop, block: Block, solver: Solver) -> None:
    """Solve what is missing of ``block`` here; a size that the solver refuses keeps the reason."""
    total = block.instances
    missing = sum(part.rows for part in block.missing())
    if not missing:
        return
    first = next(block.missing())
    warm_up = [InstanceStream(shop.city, first.seed, "test", first.rules)(first.n, first.start)]
    with Progress(f"benchmark, {block.label}", total, "instances", done=total - missing) as progress:
        for part in block.missing():
            try:
                if part == first:  # what only the first call pays
                    list(solver.solve(shop.city, warm_up, samples=first.samples[0], seed=first.seed))
                progress.advance(solve_part(Task(part, solver), shop))
            except StoreError:
                raise
            except McvrpError as error:
                block.failures[part.n] = str(error)
            else:
                block.take(part)


def problem_accuracy(model: FmMcvrp, city: City, spec: BenchmarkSpec) -> float:
    """Return the share of the problem tokens of all held-out instances that the encoder names."""
    from tasks.solvers import fm_mcvrp

    stream = InstanceStream(city, spec.seed, "test", spec.rules)
    held_out = (stream(n, i) for n, count in spec.counts.items() for i in range(count))
    return fm_mcvrp.problem_accuracy(model, city, held_out)
