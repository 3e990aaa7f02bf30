"""Parts of a benchmark on Ray, a bounded number at work: one that is refused or lost stops no other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ray.exceptions import RayError

from mcvrp.model.errors import IncompleteError, McvrpError
from mcvrp.tasks.benchmark.blocks import Block
from mcvrp.tasks.benchmark.part import Part, Task, WorkerContext, solve_part
from mcvrp.tasks.support.progress import Progress
from mcvrp.tasks.support.ray_window import windowed


def solve_heuristics(context: WorkerContext, blocks: Sequence[Block]) -> None:
    """Solve what is missing of methods whose program is known, as `solve_on_ray` does."""
    total = sum(block.instances for block in blocks)
    missing = sum(part.rows for block in blocks for part in block.missing())
    if not missing:
        return
    with Progress("benchmark, heuristics", total, "instances", done=total - missing) as progress:
        tasks = (Task(part, block.program) for block in blocks if block.program for part in block.missing())
        solve_on_ray(context, blocks, tasks, progress)


def solve_on_ray(
    context: WorkerContext, blocks: Sequence[Block], tasks: Iterable[Task], progress: Progress
) -> None:
    """Solve parts of ``blocks``; a solver that refuses ends a size of its method, and nothing else.

    Raises
    ------
    StoreError
        If the store refuses.
    IncompleteError
        If workers were lost again and again on a part; everything else is stored.
    """
    by_label = {block.label: block for block in blocks}
    lost: Part | None = None
    reason = ""
    for task, answer in windowed(solve_part, tasks, context.workers, context, context.store, refusals=True):
        part: Part = task.part
        block = by_label[part.label]
        if isinstance(answer, McvrpError):
            block.failures[part.n] = str(answer)
        elif isinstance(answer, RayError):
            lost, reason = part, type(answer).__name__
        else:
            block.take(part)
            progress.advance(answer, note=part.label)
    if lost:
        raise IncompleteError(
            f"a worker of the benchmark was lost again and again on {lost.label}, n={lost.n}, instances "
            f"{lost.start} to {lost.stop - 1} ({reason}): run again for what is missing"
        )
