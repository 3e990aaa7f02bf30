"""The metrics of a phase while it runs: sums on the device until a row is due."""

from __future__ import annotations

import math
import time

import numpy as np
import torch

from model.errors import McvrpError
from storage.checkpoints import CheckpointState
from storage.metrics import StepMetrics, read_metrics
from tasks.train_job import RankJob
from tasks.train_stream import GlobalBatch


class TrainLog:
    """Rows of metrics of the phase so far, those of an earlier run up to its checkpoint included.

    Parameters
    ----------
    job
        What is being trained.
    pieces
        Micro-batches in a global batch.
    """

    def __init__(self, job: RankJob, pieces: int) -> None:
        self._job, self._pieces = job, pieces
        self._decoder = job.spec.phase(job.phase).trains == "both"
        self._saved = job.resumed
        done = 0 if job.resumed is None else job.resumed.step
        known = read_metrics(job.store, job.spec.run, job.phase) if done else []
        self.rows = [row for row in known if row.step <= done]
        self._steps: list[int] = []
        self._sums: list[torch.Tensor] = []
        self._tokens = np.zeros(4, dtype=np.int64)  # problem, solution; with padding: problem, solution
        self.start_clock()

    def start_clock(self, saved: CheckpointState | None = None) -> None:
        """Leave what took time until now out of the rates; ``saved`` is the checkpoint that did."""
        self._since = time.monotonic()
        self._saved = saved or self._saved

    def add(self, step: int, sums: torch.Tensor, batch: GlobalBatch) -> None:
        """Note the sums of `Engine.step` on this rank."""
        self._steps.append(step)
        self._sums.append(sums)
        self._tokens += (
            batch.problem_tokens,
            batch.solution_tokens,
            *batch.computed_tokens(self._pieces),
        )

    def close_row(self, lr: float, gradient_norm: float) -> StepMetrics:
        """Return the metrics since the row before; every rank has to call this.

        Raises
        ------
        McvrpError
            If a loss or the gradient is not finite.
        """
        sums = torch.stack(self._sums)
        torch.distributed.all_reduce(sums)
        by_step = sums.cpu().numpy()
        self._check(by_step, gradient_norm)
        problem, solution, problem_computed, solution_computed = self._tokens.tolist()
        loss, correct, path_loss, path_correct = by_step.sum(0).tolist()
        real = problem + solution if self._decoder else problem
        computed = problem_computed + solution_computed if self._decoder else problem_computed
        seconds = time.monotonic() - self._since
        row = StepMetrics(
            step=self._steps[-1],
            samples=self._steps[-1] * self._job.spec.batch,
            problem_loss=loss / problem,
            problem_accuracy=correct / problem,
            solution_loss=path_loss / solution if self._decoder else math.nan,
            solution_accuracy=path_correct / solution if self._decoder else math.nan,
            lr=lr,
            gradient_norm=gradient_norm,
            tokens_per_second=real / seconds,
            padding=1 - real / computed,
        )
        self.rows.append(row)
        self._steps, self._sums = [], []
        self._tokens[:] = 0
        self.start_clock()
        return row

    def _check(self, by_step: np.ndarray, gradient_norm: float) -> None:
        finite = np.isfinite(by_step).all(axis=1)
        if finite.all() and math.isfinite(gradient_norm):
            return
        step = self._steps[int(finite.argmin())] if not finite.all() else self._steps[-1]
        job = self._job
        good = job.store.url(self._saved.folder) if self._saved else "none"
        raise McvrpError(
            f"the loss of phase {job.phase} is no finite number at step {step} "
            f"(last good checkpoint: {good}): train under another run name with a lower lr than "
            f"{job.spec.phase(job.phase).lr:g}"
        )
