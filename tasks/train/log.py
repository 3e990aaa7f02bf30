"""Metrics of a phase during training: sums on the device until a row is due, checked when it is closed."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import NoReturn

import numpy as np
import torch

from mcvrp.model.errors import McvrpError
from mcvrp.storage.training.metrics import StepMetrics, read_metrics, write_metrics
from mcvrp.tasks.train.batches import GlobalBatch
from mcvrp.tasks.train.engine import PathSums, Sums, TokenSums
from mcvrp.tasks.train.job import RankJob


class TrainLog:
    """Rows of metrics of the phase so far, including those of earlier jobs up to their checkpoint.

    ``unit`` is the factor from the costs in `tasks.train.engine.PathSums` to the city's unit.
    """

    def __init__(self, job: RankJob, unit: float = 1.0) -> None:
        self._job, self._unit = job, unit
        self._phase, resumed = job.spec.phase(job.phase), job.resumed
        stored = read_metrics(job.store, job.spec.run, job.phase) if resumed else []
        self.rows = [row for row in stored if resumed and row.step <= resumed.step]
        self._steps: list[tuple[int, GlobalBatch | None, Sums]] = []  # since the last row
        self._since = time.monotonic()

    @contextmanager
    def clock_stopped(self) -> Iterator[None]:
        """Exclude the time of this context, decoding or a checkpoint, from the rates."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()  # steps that are still being computed do count
        began = time.monotonic()
        yield
        self._since += time.monotonic() - began

    def add(self, step: int, sums: Sums, batch: GlobalBatch | None) -> None:
        """Add the sums of `Engine.step` on this rank; ``batch`` has the labels of the step, if any."""
        self._steps.append((step, batch, sums))

    def first_row(self, **gaps: float) -> StepMetrics:
        """Return the metrics before the first step: the held-out gaps of the initial weights."""
        values = dict.fromkeys((f.name for f in fields(StepMetrics)), math.nan) | gaps
        return self._closed(StepMetrics(**values | {"step": 0, "samples": 0}))  # type: ignore[arg-type]

    def close_row(self, lr: float, gradient_norm: float, **gaps: float) -> StepMetrics:
        """Return the metrics since the previous row; every rank has to call this.

        ``gaps`` are the held-out gaps by their names in `StepMetrics`, if they were measured. McvrpError
        if a loss or the gradient is not finite.
        """
        totals = self._finite_totals(gradient_norm)
        problem_sums, solution_sums = (TokenSums(*totals[kind]) for kind in ("problem", "solution"))
        paths = PathSums(*totals["paths"])
        batches = [batch for _, batch, _ in self._steps if batch is not None]
        problem = sum(batch.problem_tokens for batch in batches)
        solution = sum(batch.solution_tokens for batch in batches) if self._phase.trains != "encoder" else 0
        step, policy = self._steps[-1][0], self._phase.policy
        instances = len(self._steps) * policy.instances if policy else 0
        row = StepMetrics(
            step=step,
            samples=step * (policy.instances if policy else self._job.spec.batch),
            problem_loss=_mean(problem_sums.loss, problem),
            problem_accuracy=_mean(problem_sums.correct, problem),
            solution_loss=_mean(solution_sums.loss, solution),
            solution_accuracy=_mean(solution_sums.correct, solution),
            lr=lr,
            gradient_norm=gradient_norm,
            tokens_per_second=(problem + solution + paths.tokens) / (time.monotonic() - self._since),
            sampled_cost=self._unit * _mean(paths.cost, instances),
            best_cost=self._unit * _mean(paths.best_cost, instances),
            **gaps,
        )
        return self._closed(row)

    def _finite_totals(self, gradient_norm: float) -> dict[str, list[float]]:
        """Return the sums of all ranks and steps by kind of work, zeros for kinds that the phase lacks."""
        finite = np.full(len(self._steps), True)
        totals = {"problem": [0.0] * 2, "solution": [0.0] * 2, "paths": [0.0] * 3}
        for kind in self._steps[0][2]:  # every step of a phase has the same kinds of work
            sums = torch.stack([step_sums[kind] for _, _, step_sums in self._steps])
            torch.distributed.all_reduce(sums)
            by_step = sums.cpu().numpy()  # waits for the device: once per row, not once per step
            finite &= np.isfinite(by_step).all(axis=1)
            totals[kind] = by_step.sum(0).tolist()
        if not finite.all():
            self._refuse("is not finite", self._steps[int(finite.argmin())][0])
        if not math.isfinite(gradient_norm):
            self._refuse("has a gradient that is not finite", self._steps[-1][0])
        return totals

    def _closed(self, row: StepMetrics) -> StepMetrics:
        self.rows.append(row)
        self._steps = []
        self._since = time.monotonic()
        return row

    def save(self) -> None:
        """Write all rows to the store."""
        write_metrics(self._job.store, self._job.spec.run, self._job.phase, self.rows)

    def _refuse(self, problem: str, step: int) -> NoReturn:
        raise McvrpError(
            f"the loss of phase {self._job.phase} {problem}, at step {step:,}: train under another run name "
            f"with an lr below {self._phase.lr:g}"
        )


def _mean(total: float, count: float) -> float:
    return total / count if count else math.nan
