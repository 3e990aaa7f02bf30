"""Training by curriculum: phases in turn, each from where it stands, then the model is published."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mcvrp.model.errors import IncompleteError, McvrpError
from mcvrp.model.problem import City
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.models.models import ModelCard, export_model
from mcvrp.storage.store.store import Store
from mcvrp.storage.training.checkpoints import latest_checkpoint
from mcvrp.tasks.support.machine import local_cores
from mcvrp.tasks.support.progress import Progress
from mcvrp.tasks.train.card import write_run_card
from mcvrp.tasks.train.held_out import require
from mcvrp.tasks.train.job import RankJob, RanksDiedError
from mcvrp.tasks.train.policy_memory import require_memory
from mcvrp.tasks.train.ranks.launch import require_cores, run_local
from mcvrp.tasks.train.resume import (
    base_card,
    beginning,
    check_origin,
    finished,
    label_counts,
    order_rules,
    origin_of,
    run_lease,
)
from mcvrp.tasks.train.spec import PhaseSpec, TrainSpec

logger = logging.getLogger(__name__)

_SHARE = 32  # samples of a rank, at least, where ranks are not given
Launcher = Callable[[RankJob, Progress], None]


@dataclass(frozen=True)
class PhaseSummary:
    """Result of a job: from step ``began_at`` to ``step`` of ``steps``; ``metrics`` is the last row."""

    phase: str
    step: int
    steps: int
    samples: int
    began_at: int
    seconds: float
    metrics: Mapping[str, Any]

    @property
    def complete(self) -> bool:
        """True if the phase is finished; else the next job goes on with it."""
        return self.step == self.steps


@dataclass(frozen=True)
class TrainSummary:
    """A finished run and the model that it published."""

    run: str
    phases: tuple[PhaseSummary, ...]
    model: ModelCard


def train(
    store: Store, city: City, spec: TrainSpec, cache: Path, launch: Launcher | None = None
) -> TrainSummary:
    """Train all phases of ``spec`` that are not finished, job after job, and publish the model.

    Parameters and errors are those of `train_phase`.
    """

    def whole(phase: PhaseSpec) -> PhaseSummary:
        return until_complete(lambda _: train_phase(store, city, spec, phase.name, cache, launch))

    phases = tuple(whole(phase) for phase in spec.phases)
    return TrainSummary(spec.run, phases, publish(store, spec))


def until_complete(job: Callable[[int], PhaseSummary]) -> PhaseSummary:
    """Run ``job(1)``, ``job(2)``, ... until the phase is complete; return what they did in all."""
    first = last = job(1)
    seconds, number = first.seconds, 1
    while not last.complete:
        number += 1
        last = job(number)
        seconds += last.seconds
    return replace(last, began_at=first.began_at, seconds=seconds)


def publish(store: Store, spec: TrainSpec) -> ModelCard:
    """Publish the weights of the run's last phase; the same weights are published once.

    Raises
    ------
    McvrpError
        If the last phase is not finished.
    """
    last = spec.phases[-1]
    final = finished(store, spec, last.name, f"model {spec.model!r}")
    return export_model(store, spec.model, final, dataset=spec.dataset, rotation_trained=last.rotation)


def train_phase(
    store: Store, city: City, spec: TrainSpec, name: str, cache: Path, launch: Launcher | None = None
) -> PhaseSummary:
    """Train the phase ``name`` from its last checkpoint, or from the end of the phase before it.

    One job: it ends with the phase, or with a checkpoint before ``spec.max_hours`` are over.
    Ranks that die are started again from the last checkpoint.

    Parameters
    ----------
    cache
        A folder of this machine, and of each that trains, for the labels as training reads them.
    launch
        How ranks are started; None does as ``spec.launcher`` says.

    Raises
    ------
    McvrpError
        If there is no such phase, labels are missing, the phase before is not finished, the
        batch cannot be shared, a checkpoint is there that was made with something else, or the
        run is being trained by another process.
    IncompleteError
        If ranks died more than ``spec.restarts`` times in a row without a new checkpoint; running
        again goes on from the last.
    """
    phase, cores = spec.phase(name), local_cores()
    ranks = _ranks(spec, cores)
    labels = Dataset.open(store, spec.dataset) if spec.needs_labels(name) else None
    counts = label_counts(labels, city, spec, name) if labels else ()
    steps, samples = spec.steps(name, counts), spec.samples(name, counts)
    rules = order_rules(store, city, spec, name)
    start, origin = beginning(store, labels, city, spec, name, rules)
    checkpoint = latest_checkpoint(store, spec.run, name)
    if checkpoint:
        check_origin(store, city, checkpoint, origin)
        start = checkpoint
    began_at, began = checkpoint.step if checkpoint else 0, time.monotonic()
    if not (checkpoint and checkpoint.complete):
        require(store, city, spec, name)
        ends_at = time.time() + 3600 * spec.max_hours if spec.max_hours else None
        with run_lease(store, spec) as lease:
            place = str(cache)
            job = RankJob(
                store, city, spec, name, counts, origin, start, ranks, cores, place, lease, rules, ends_at
            )
            write_run_card(store, city, spec)  # a run that is at work has a card, too
            _restart_ranks(job, launch or _launcher(spec), steps)
        checkpoint = latest_checkpoint(store, spec.run, name)
        if checkpoint is None or checkpoint.step <= began_at:
            raise IncompleteError(f"training of phase {phase.name} ended without a checkpoint: run again")
        write_run_card(store, city, spec)
    seconds = time.monotonic() - began
    return PhaseSummary(name, checkpoint.step, steps, samples, began_at, seconds, checkpoint.metrics)


def _restart_ranks(job: RankJob, launch: Launcher, steps: int) -> None:
    """Run ``job`` by ``launch``; when ranks die, again from the checkpoint that is the last then."""
    run, phase, restarts = job.spec.run, job.phase, job.spec.restarts
    deaths = 0  # in a row, without a new checkpoint
    while True:
        checkpoint = latest_checkpoint(job.store, run, phase)
        # By whoever was at it before we had the lease, or by ranks that died afterwards.
        if checkpoint and checkpoint.complete:
            return
        if checkpoint:  # it may have come since the phase was checked
            check_origin(job.store, job.city, checkpoint, job.origin)
        job = replace(job, start=checkpoint or job.start)
        done = checkpoint.step if checkpoint else 0
        try:
            with Progress(f"train {phase}", steps, "steps", done=done) as progress:
                launch(job, progress)
            return
        except RanksDiedError as error:
            checkpoint = latest_checkpoint(job.store, run, phase)
            reached = checkpoint.step if checkpoint else 0
            deaths = 1 if reached > done else deaths + 1  # a run that gets on may die as often as it likes
            if deaths > restarts:
                raise
            logger.warning(
                f"training of phase {phase}: {error.reason}; "
                f"started again from step {reached:,} (try {deaths} of {restarts} to get further)"
            )


def check_training(store: Store, city: City, spec: TrainSpec) -> None:
    """Check what can be checked before there are labels: ranks, the base, and checkpoints of earlier runs.

    Raises
    ------
    McvrpError
        If the batch cannot be shared, the base is not there or has another network, or a checkpoint was
        made with something else.
    """
    base_card(store, city, spec)
    cores = local_cores()
    ranks = _ranks(spec, cores)
    if spec.launcher == "local":
        require_cores(ranks, cores)
        require_memory(city, spec, ranks)
    for phase in spec.phases:
        checkpoint = latest_checkpoint(store, spec.run, phase.name)
        if checkpoint:
            there = checkpoint.origin
            rules = order_rules(store, city, spec, phase.name)
            wanted = origin_of(city, spec, phase.name, rules, there.fingerprint, there.parent)
            check_origin(store, city, checkpoint, wanted)


def _launcher(spec: TrainSpec) -> Launcher:
    if spec.launcher == "local":
        return run_local
    from mcvrp.tasks.train.ranks.launch_ray import run_cluster

    return run_cluster


def _ranks(spec: TrainSpec, cores: int) -> int:
    """Return how many ranks train: as asked, else one a GPU, else one a core where each has enough to do.

    On idle cores two ranks of one thread train a small network 1.8 times as fast as one rank
    of two threads (BENCHMARKS.md): threads meet after every operation, ranks once a step.

    Raises
    ------
    McvrpError
        If their shares of a batch would not be equal.
    """
    ranks = spec.ranks or _gpus()
    if not ranks:
        divided = [spec.batch, *(phase.policy.instances for phase in spec.phases if phase.policy)]
        shares = [r for r in range(1, cores + 1) if all(count % r == 0 for count in divided)]
        ranks = max((r for r in shares if spec.batch // r >= _SHARE), default=1)
    shared = {"train.batch": spec.batch}
    shared |= {f"policy.instances of phase {p.name}": p.policy.instances for p in spec.phases if p.policy}
    for what, count in shared.items():
        if count % ranks:
            raise McvrpError(
                f"{what} = {count} cannot be shared by {ranks} ranks: give a multiple of {ranks}"
            )
    return ranks


def _gpus() -> int:
    if not Path("/proc/driver/nvidia").exists():  # do not ask torch, whose import takes seconds
        return 0
    import torch

    return torch.cuda.device_count()
