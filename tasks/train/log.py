"""The metrics of a phase while it runs: sums on the device until a row is due, checked as it closes."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields

import numpy as np
import torch

from mcvrp.model.errors import McvrpError
from mcvrp.storage.training.checkpoints import CheckpointState
from mcvrp.storage.training.metrics import StepMetrics, read_metrics, write_events, write_metrics
from mcvrp.tasks.train.batches import GlobalBatch
from mcvrp.tasks.train.engine import Sums
from mcvrp.tasks.train.job import RankJob

_NAMED = 3  # samples of a batch that an error names
# A loss has blown up when it is above both of these, as seen from the best loss so far.
_FACTOR = 5.0
_RISE = 1.0  # nats


@dataclass
class Watch:
    """Follows the loss of one stream of tokens, row by row.

    Parameters
    ----------
    stream
        "problem" or "solution".
    choices
        Among how many nodes the network chooses: a loss above uniform guessing, ln(choices),
        is worse than no knowledge.
    limit
        Steps in a row that a loss may be out of bounds.
    """

    stream: str
    choices: int
    limit: int
    best: float = math.inf
    sound_step: int = 0  # the last step whose loss was within bounds

    def update(self, row: StepMetrics) -> str | None:
        """Return what is wrong with the loss after ``row``, None while nothing is."""
        loss = getattr(row, f"{self.stream}_loss")
        if math.isnan(loss):  # this phase does not train the stream
            return None
        self.best = min(self.best, loss)
        uniform = math.log(self.choices)
        bound = min(uniform, max(_FACTOR * self.best, self.best + _RISE))
        if loss <= bound:
            self.sound_step = row.step
        if row.step - self.sound_step <= self.limit:
            return None
        return (
            f"has diverged: {loss:.3g} on {self.stream} tokens, above {bound:.3g} for "
            f"{row.step - self.sound_step} steps (best {self.best:.3g}, uniform guessing {uniform:.3g})"
        )


class TrainLog:
    """Rows of metrics of the phase so far, those of an earlier job up to its checkpoint included.

    Parameters
    ----------
    job
        What is being trained.
    unit
        What a cost of 1 in `tasks.train.engine.Sums` is in the city's own unit.
    """

    def __init__(self, job: RankJob, unit: float = 1.0) -> None:
        self._job, self._good = job, job.start
        phase = job.spec.phase(job.phase)
        self._decoder, self._policy = phase.trains != "encoder", phase.policy
        self._unit = unit
        known = read_metrics(job.store, job.spec.run, job.phase) if job.resumed else []
        self.rows = [row for row in known if job.resumed and row.step <= job.resumed.step]
        self._times: list[float] = []  # when each row was closed that has no event so far
        limit, nodes = job.spec.diverged_after, job.spec.sizes(job.phase)[-1] + 1
        self._watches = [
            Watch("problem", job.city.classes, limit),
            Watch("solution", nodes, limit),
        ]
        for row in self.rows:  # so that a resumed run diverges at the step at which it would have
            for watch in self._watches:
                watch.update(row)
        self._batches: list[tuple[int, GlobalBatch | None]] = []
        self._sums: list[torch.Tensor] = []
        self.start_clock()

    def start_clock(self, saved: CheckpointState | None = None) -> None:
        """Leave what took time until now out of the rates; ``saved`` is the checkpoint that did."""
        self._since = time.monotonic()
        self._good = saved or self._good

    @contextmanager
    def clock_stopped(self) -> Iterator[None]:
        """Leave what is done in this context, such as decoding, out of the rates."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()  # steps that are still being computed count
        began = time.monotonic()
        yield
        self._since += time.monotonic() - began

    def add(self, step: int, sums: torch.Tensor, batch: GlobalBatch | None) -> None:
        """Note the sums of `Engine.step` on this rank; ``batch`` has the step's labels, if it has any."""
        self._batches.append((step, batch))
        self._sums.append(sums)

    def first_row(self, **gaps: float) -> StepMetrics:
        """Return the metrics before the first step: how good the network is that the phase begins with."""
        nothing = {f.name: math.nan for f in fields(StepMetrics) if f.default is MISSING}
        return self._closed(StepMetrics(**{**nothing, **gaps, "step": 0, "samples": 0}))  # type: ignore[arg-type]

    def close_row(self, lr: float, gradient_norm: float, **gaps: float) -> StepMetrics:
        """Return the metrics since the row before; every rank has to call this.

        ``gaps`` are the held-out gaps by their names in `StepMetrics`, where they were measured.

        Raises
        ------
        McvrpError
            If a loss or the gradient is not finite, or the loss has diverged.
        """
        sums = torch.stack(self._sums)
        torch.distributed.all_reduce(sums)
        by_step = sums.cpu().numpy()  # waits for the device: once a row, not once a step
        self._check_finite(by_step, gradient_norm)
        total = Sums(*by_step.sum(0).tolist())
        batches = [batch for _, batch in self._batches if batch is not None]
        tokens = [(b.problem_tokens, b.solution_tokens, *b.computed_tokens()) for b in batches]
        problem, solution, problem_computed, solution_computed = np.sum(
            [(0, 0, 0, 0), *tokens], axis=0
        ).tolist()
        real = problem + solution if self._decoder else problem
        computed = problem_computed + solution_computed if self._decoder else problem_computed
        step, policy = self._batches[-1][0], self._policy
        drawn = len(self._batches) * policy.instances if policy else 0
        row = StepMetrics(
            step=step,
            samples=step * (policy.instances if policy else self._job.spec.batch),
            problem_loss=_mean(total.problem_loss, problem),
            problem_accuracy=_mean(total.problem_correct, problem),
            solution_loss=_mean(total.solution_loss, solution if self._decoder else 0),
            solution_accuracy=_mean(total.solution_correct, solution if self._decoder else 0),
            lr=lr,
            gradient_norm=gradient_norm,
            tokens_per_second=(real + total.tokens) / (time.monotonic() - self._since),
            padding=1 - real / computed if computed else 0.0,
            sampled_cost=self._unit * _mean(total.sampled, drawn),
            best_cost=self._unit * _mean(total.best, drawn),
            spread=_mean(total.spread, drawn),
            **gaps,
        )
        return self._closed(row)

    def _closed(self, row: StepMetrics) -> StepMetrics:
        for watch in self._watches:
            if trouble := watch.update(row):
                self._refuse(trouble, *self._batches[-1])
        self.rows.append(row)
        self._times.append(time.time())
        self._batches, self._sums = [], []
        self.start_clock()
        return row

    def save(self) -> None:
        """Write all rows to the store, and TensorBoard's events of those since the last time."""
        run, phase = self._job.spec.run, self._job.phase
        write_metrics(self._job.store, run, phase, self.rows)
        write_events(self._job.store, run, phase, self.rows[len(self.rows) - len(self._times) :], self._times)
        self._times = []

    def _check_finite(self, by_step: np.ndarray, gradient_norm: float) -> None:
        finite = np.isfinite(by_step).all(axis=1)
        if not finite.all():
            self._refuse("is no finite number", *self._batches[int(finite.argmin())])
        if not math.isfinite(gradient_norm):
            self._refuse("has a gradient that is no finite number", *self._batches[-1])

    def _refuse(self, trouble: str, step: int, batch: GlobalBatch | None) -> None:
        """Raise the error that names step, batch and the last good checkpoint."""
        job = self._job
        where = f"at step {step:,} ({self._named(step, batch)}"
        raise McvrpError(
            f"the loss of phase {job.phase} {trouble}, {where}; last good checkpoint: "
            f"{job.store.url(self._good.folder) if self._good else 'none'}): train under another run name "
            f"with an lr below {job.spec.phase(job.phase).lr:g}"
        )

    def _named(self, step: int, batch: GlobalBatch | None) -> str:
        """Return what the step learnt from, in words."""
        job = self._job
        if batch is None:
            return "of instances drawn for it alone"
        samples = batch.samples
        pairs = list(zip(samples.sizes.tolist(), samples.rows.tolist(), strict=True))[:_NAMED]
        named = ", ".join(f"row {row} of n={size}" for size, row in pairs)
        sizes = f"n={samples.sizes.min()}" + (
            f" to {samples.sizes.max()}" if samples.sizes.min() < samples.sizes.max() else ""
        )
        return (
            f"batch {step:,} of dataset {job.spec.dataset!r}, fingerprint {job.origin.fingerprint[:12]}: "
            f"{len(samples.sizes)} samples of {sizes}, the first {named}"
        )


def _mean(total: float, count: float) -> float:
    """Return the mean over ``count`` tokens or instances, NaN where there were none."""
    return total / count if count else math.nan
