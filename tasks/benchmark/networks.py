"""Networks of a benchmark on the best local device: the GPU, otherwise single-threaded processes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mcvrp.model.errors import McvrpError
from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City
from mcvrp.storage.models.attention import load_attention_model
from mcvrp.storage.models.models import ModelCard
from mcvrp.storage.store.errors import StoreError
from mcvrp.storage.store.store import Store
from mcvrp.tasks.benchmark.blocks import Block
from mcvrp.tasks.benchmark.methods import all_methods
from mcvrp.tasks.benchmark.on_ray import solve_on_ray
from mcvrp.tasks.benchmark.part import Part, Task, WorkerContext, solve_part
from mcvrp.tasks.benchmark.prepare import rotations
from mcvrp.tasks.benchmark.spec import BenchmarkSpec
from mcvrp.tasks.solvers.registry import SOLVERS
from mcvrp.tasks.solvers.solver import Solver
from mcvrp.tasks.solvers.strategies import STRATEGIES
from mcvrp.tasks.solvers.warm_start import WarmStarted
from mcvrp.tasks.support.pool import Pool
from mcvrp.tasks.support.progress import Progress

if TYPE_CHECKING:
    from mcvrp.model.network import FmMcvrp
    from mcvrp.tasks.solvers.fm_mcvrp import FmMcvrpSolver

_WAVE = 2  # parts per worker that are decoded before they are searched


def on_best_device(model: FmMcvrp) -> FmMcvrp:
    """Return ``model`` on the GPU, if there is one."""
    import torch

    return model.to("cuda" if torch.cuda.is_available() else "cpu")


def sampler(spec: BenchmarkSpec, model: FmMcvrp, card: ModelCard, pool: Pool | None = None) -> FmMcvrpSolver:
    """Return the solver that samples the model."""
    from mcvrp.tasks.solvers.fm_mcvrp import FmMcvrpSolver

    strategy = STRATEGIES["ns"].make(spec.decoding)
    version = f"{card.name} version {card.version}"
    return FmMcvrpSolver(model, strategy, rotations(spec, card), version, pool=pool)


def network(spec: BenchmarkSpec, method: str, model: FmMcvrp, card: ModelCard, pool: Pool) -> Solver:
    """Return the solver of a method that only decodes ``model``."""
    samples, decoder = sampler(spec, model, card, pool), all_methods()[method].decoder
    return decoder(spec, samples) if decoder else samples


def attention(store: Store, spec: BenchmarkSpec, sizes: Iterable[int], pool: Pool) -> Solver:
    """Return the attention models of ``sizes`` as one solver; McvrpError if one is missing or corrupt."""
    import torch

    from mcvrp.tasks.solvers.attention import AttentionSolver

    name = spec.attention or ""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    models = {n: load_attention_model(store, name, n)[0].to(device) for n in sizes}
    return AttentionSolver(models, name, pool=pool)


def finish_missing(context: WorkerContext, block: Block, samples: FmMcvrpSolver, total: float) -> None:
    """Solve what is missing of ``block`` with a warm-started search, ``total`` seconds per instance.

    Samples are decoded locally, one instance at a time, and searched on Ray. The two alternate, so that
    neither competes for cores while its time is measured. Raises as `solve_on_ray`.
    """
    parts = list(block.missing())
    if not parts:
        return
    done = block.instances - sum(part.rows for part in parts)
    with Progress(f"benchmark, {block.label}", block.instances, "instances", done=done) as progress:
        for start in range(0, len(parts), _WAVE * context.workers):
            tasks: list[tuple[Block, Task]] = []
            for part in parts[start : start + _WAVE * context.workers]:
                if part.n in block.failures:
                    continue
                try:
                    tasks.append((block, _finishing(context, block, part, samples, total)))
                except McvrpError as error:
                    block.failures[part.n] = str(error)
            solve_on_ray(context, tasks, progress)


def _finishing(
    context: WorkerContext, block: Block, part: Part, samples: FmMcvrpSolver, total: float
) -> Task:
    """Decode the samples of ``part`` and return the search that starts from them."""
    stream = InstanceStream(context.city, part.seed, "test", part.rules)
    instances = [stream(part.n, i) for i in range(part.start, part.stop)]
    starts = samples.starts(context.city, instances, samples=part.samples[-1], seed=part.seed)
    on_gpu = samples.device.startswith("GPU")
    solver = WarmStarted(
        finisher=SOLVERS[all_methods()[block.method].program or ""],
        total=total,
        starts=tuple(starts),
        version=samples.version,
        device=f"{samples.device} + 1 CPU core" if on_gpu else "1 CPU core",
    )
    return Task(part, solver)


def decode_missing(context: WorkerContext, block: Block, solver: Solver) -> None:
    """Solve what is missing of ``block`` in this process; a size that the solver refuses fails."""
    total = block.instances
    missing = sum(part.rows for part in block.missing())
    if not missing:
        return
    first = next(block.missing())
    warm_up = [InstanceStream(context.city, first.seed, "test", first.rules)(first.n, first.start)]
    with Progress(f"benchmark, {block.label}", total, "instances", done=total - missing) as progress:
        for part in block.missing():
            try:
                if part == first:  # warm-up: the first call is slower
                    list(solver.solve(context.city, warm_up, samples=first.samples[0], seed=first.seed))
                progress.advance(solve_part(Task(part, solver), context))
            except StoreError:
                raise
            except McvrpError as error:
                block.failures[part.n] = str(error)
            else:
                block.take(part)


def problem_accuracy(model: FmMcvrp, city: City, spec: BenchmarkSpec, pool: Pool) -> float:
    """Return the accuracy of the encoder on the problem tokens of all held-out instances."""
    from mcvrp.tasks.solvers import fm_mcvrp
    from mcvrp.tasks.solvers.devices import decoding_map

    stream = InstanceStream(city, spec.seed, "test", spec.rules_in(city))
    held_out = (stream(n, i) for n, count in spec.counts.items() for i in range(count))
    with decoding_map(model, pool):  # limits torch to one thread, as decoding does
        return fm_mcvrp.problem_accuracy(model, city, held_out)
