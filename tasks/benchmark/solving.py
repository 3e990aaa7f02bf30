"""Solving of what is missing of a benchmark: programs on Ray, networks in this process.

A refused or lost part stops no other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ray.exceptions import RayError

from mcvrp.model.errors import McvrpError
from mcvrp.storage.store.errors import StoreError
from mcvrp.tasks.benchmark.blocks import Block
from mcvrp.tasks.benchmark.part import Task, WorkerContext, solve_part
from mcvrp.tasks.solvers.solver import Solver
from mcvrp.tasks.support.progress import Progress
from mcvrp.tasks.support.ray_session import windowed


def solve_heuristics(context: WorkerContext, blocks: Sequence[Block]) -> list[str]:
    """Solve the missing parts of ``blocks`` with their programs; a solver that refuses fails one size.

    Returns the parts whose workers were lost repeatedly, in words. StoreError if the store refuses.
    """
    total = sum(block.instances for block in blocks)
    done = total - sum(part.rows for block in blocks for part in block.missing())
    owners: dict[str, Block] = {}  # by path of the part

    def submitted() -> Iterator[Task]:
        for block in blocks:
            if block.program:
                for part in block.missing():
                    owners[part.path] = block
                    yield Task(part, block.program)

    lost: list[str] = []
    with Progress("benchmark, heuristics", total, "instances", done=done) as progress:
        for task, answer in windowed(solve_part, submitted(), context.workers, context, refusals=True):
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


def decode_missing(context: WorkerContext, block: Block, solver: Solver) -> None:
    """Solve what is missing of ``block`` in this process; a size that the solver refuses fails."""
    total = block.instances
    missing = sum(part.rows for part in block.missing())
    if not missing:
        return
    first = next(block.missing())
    warm_up = first.instances(context.city)[:1]
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
