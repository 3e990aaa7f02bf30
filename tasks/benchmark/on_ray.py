"""Parts of a benchmark on Ray with a bounded number in flight; a refused or lost part stops no other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ray.exceptions import RayError

from mcvrp.model.errors import IncompleteError, McvrpError
from mcvrp.tasks.benchmark.blocks import Block
from mcvrp.tasks.benchmark.part import Task, WorkerContext, solve_part
from mcvrp.tasks.support.progress import Progress
from mcvrp.tasks.support.ray_window import windowed


def solve_heuristics(context: WorkerContext, blocks: Sequence[Block]) -> None:
    """Solve the missing parts of ``blocks`` with their programs; raises as `solve_on_ray`."""
    total = sum(block.instances for block in blocks)
    missing = sum(part.rows for block in blocks for part in block.missing())
    if missing:
        with Progress("benchmark, heuristics", total, "instances", done=total - missing) as progress:
            tasks = (
                (block, Task(part, block.program))
                for block in blocks
                if block.program
                for part in block.missing()
            )
            solve_on_ray(context, tasks, progress)


def solve_on_ray(context: WorkerContext, tasks: Iterable[tuple[Block, Task]], progress: Progress) -> None:
    """Solve parts of blocks and read the answers back; a solver that refuses fails one size of its method.

    Raises
    ------
    StoreError
        If the store refuses.
    IncompleteError
        If the worker of a part was lost repeatedly; all other answers are stored.
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
    if lost:
        more = f" and {len(lost) - 1:,} more parts" if lost[1:] else ""
        raise IncompleteError(
            f"a benchmark worker was lost repeatedly on {lost[0]}{more}: run the command again to solve "
            "what is missing"
        )
