"""Solving of what is missing of a benchmark: programs on Ray, networks in this process.

A refused or lost part stops no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ray.exceptions import RayError

from mcvrp.model.errors import IncompleteError, McvrpError
from mcvrp.storage.store.errors import StoreError
from mcvrp.tasks.benchmark.blocks import Block
from mcvrp.tasks.benchmark.part import Part, Task, WorkerContext, solve_part
from mcvrp.tasks.solvers.registry import SOLVERS
from mcvrp.tasks.solvers.solver import Solver
from mcvrp.tasks.solvers.warm_start import WarmStarted
from mcvrp.tasks.support.progress import Progress
from mcvrp.tasks.support.ray_session import windowed

if TYPE_CHECKING:
    from mcvrp.tasks.solvers.fm_mcvrp import FmMcvrpSolver

_WAVE = 2  # parts per worker that are decoded before they are searched


def solve_heuristics(context: WorkerContext, blocks: Sequence[Block]) -> list[str]:
    """Solve the missing parts of ``blocks`` with their programs; see `solve_on_ray`."""
    total = sum(block.instances for block in blocks)
    missing = sum(part.rows for block in blocks for part in block.missing())
    if missing:
        done = total - missing
        with Progress("benchmark, heuristics", total, "instances", done=done, saves=True) as progress:
            tasks = (
                (block, Task(part, block.program))
                for block in blocks
                if block.program
                for part in block.missing()
            )
            return solve_on_ray(context, tasks, progress)
    return []


def solve_on_ray(
    context: WorkerContext, tasks: Iterable[tuple[Block, Task]], progress: Progress
) -> list[str]:
    """Solve parts of blocks and read the answers back; a solver that refuses fails one size of its method.

    Returns the parts whose workers were lost repeatedly, in words. StoreError if the store refuses.
    """
    owners: dict[str, Block] = {}  # by path of the part

    def submitted() -> Iterator[Task]:
        for block, task in tasks:
            owners[task.part.path] = block
            yield task

    lost: list[str] = []
    for task, answer in windowed(
        solve_part, submitted(), context.workers, context, context.store, refusals=True
    ):
        part, block = task.part, owners.pop(task.part.path)
        if isinstance(answer, McvrpError):
            block.failures[part.n] = str(answer)
        elif isinstance(answer, RayError):
            reason = type(answer).__name__
            lost.append(f"{part.label}, n={part.n}, instances {part.start} to {part.stop - 1} ({reason})")
        else:
            block.take(part)
            progress.advance(answer, note=part.label)
    return lost


def require_none(lost: Sequence[str]) -> None:
    """Raise IncompleteError if there are ``lost`` parts, as `solve_on_ray` returns them."""
    if lost:
        more = f" and {len(lost) - 1:,} more parts" if lost[1:] else ""
        raise IncompleteError(
            f"a benchmark worker was lost repeatedly on {lost[0]}{more}: run the command again to solve "
            "what is missing"
        )


def _progress(block: Block, done: int) -> Progress:
    return Progress(f"benchmark, {block.method.label}", block.instances, "instances", done=done, saves=True)


def finish_missing(context: WorkerContext, block: Block, samples: FmMcvrpSolver, total: float) -> list[str]:
    """Solve what is missing of ``block`` with a warm-started search, ``total`` seconds per instance.

    Samples are decoded locally, one instance at a time, and searched on Ray. The two alternate, so that
    neither competes for cores while its time is measured. Returns and raises as `solve_on_ray`.
    """
    parts, lost = list(block.missing()), list[str]()
    if not parts:
        return lost
    done = block.instances - sum(part.rows for part in parts)
    with _progress(block, done) as progress:
        for start in range(0, len(parts), _WAVE * context.workers):
            tasks: list[tuple[Block, Task]] = []
            for part in parts[start : start + _WAVE * context.workers]:
                if part.n in block.failures:
                    continue
                try:
                    tasks.append((block, _finishing(context, block, part, samples, total)))
                except McvrpError as error:
                    block.failures[part.n] = str(error)
            lost += solve_on_ray(context, tasks, progress)
    return lost


def _finishing(
    context: WorkerContext, block: Block, part: Part, samples: FmMcvrpSolver, total: float
) -> Task:
    """Decode the samples of ``part`` and return the search that starts from them."""
    instances = part.instances(context.city)
    starts = samples.starts(context.city, instances, samples=part.samples[-1], seed=part.seed)
    on_gpu = samples.device.startswith("GPU")
    solver = WarmStarted(
        finisher=SOLVERS[block.method.program or ""],
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
    warm_up = first.instances(context.city)[:1]
    with _progress(block, total - missing) as progress:
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
