"""Training by curriculum: the phases in turn, each resumed from its last checkpoint, then the model."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mcvrp.model.errors import IncompleteError
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.cities import StoredCity, city_parent
from mcvrp.storage.models.models import ModelCard, publish_model
from mcvrp.storage.provenance import Parent, Provenance, made
from mcvrp.storage.store.store import Store
from mcvrp.storage.training.checkpoints import CheckpointState, intact_checkpoint, latest_checkpoint
from mcvrp.tasks.support.machine import local_cores
from mcvrp.tasks.support.progress import Progress
from mcvrp.tasks.train.card import write_run_card
from mcvrp.tasks.train.held_out import require
from mcvrp.tasks.train.job import RankJob, RanksDiedError
from mcvrp.tasks.train.phase_start import check_origin, finished, phase_start, run_lease
from mcvrp.tasks.train.ranks.launch import run_local
from mcvrp.tasks.train.resources import rank_count
from mcvrp.tasks.train.spec import TrainSpec

logger = logging.getLogger(__name__)

Launcher = Callable[[RankJob, Progress], None]


@dataclass(frozen=True)
class PhaseSummary:
    """A finished phase, trained from step ``began_at`` by this command; ``metrics`` is its last row."""

    phase: str
    steps: int
    samples: int
    began_at: int
    seconds: float
    metrics: Mapping[str, Any]


@dataclass(frozen=True)
class TrainSummary:
    """A finished run and its published model."""

    run: str
    phases: tuple[PhaseSummary, ...]
    model: ModelCard


def train(
    store: Store, city: City | StoredCity, spec: TrainSpec, cache: Path, launch: Launcher | None = None
) -> TrainSummary:
    """Train all unfinished phases of ``spec``, and publish the model.

    Parameters and errors are those of `train_phase`; the model's card names a stored city.
    """
    stored, city = (city, city.city) if isinstance(city, StoredCity) else (None, city)

    phases = tuple(train_phase(store, city, spec, phase.name, cache, launch) for phase in spec.phases)
    return TrainSummary(spec.run, phases, publish(store, spec, stored))


def publish(store: Store, spec: TrainSpec, city: StoredCity | None = None) -> ModelCard:
    """Publish the weights of the run's last phase as a model version, unless one has them already.

    The name of ``city`` is written to the model's card. McvrpError if the last phase is not finished.
    """
    last = spec.phases[-1]
    final = finished(store, spec, last.name, f"model {spec.model!r}")
    return publish_model(
        store,
        spec.model,
        final,
        dataset=spec.dataset,
        rotation_trained=last.rotation,
        city=city.name if city else None,
        city_parent=city_parent(store, final.origin.city_id),
    )


def train_phase(
    store: Store, city: City, spec: TrainSpec, name: str, cache: Path, launch: Launcher | None = None
) -> PhaseSummary:
    """Train the phase ``name`` to its end, from its last checkpoint or the end of the previous phase.

    Parameters
    ----------
    cache
        Folder of this machine, and of each that trains, for the local copy of the labels.
    launch
        Starts the ranks; None: the launcher of ``spec``.

    Raises
    ------
    McvrpError
        If the phase cannot be trained as specified, or another process trains the run.
    IncompleteError
        If ranks died more than ``spec.restarts`` times in a row without a new checkpoint.
    """
    start, cores = phase_start(store, city, spec, name), local_cores()
    ranks, checkpoint = rank_count(spec, cores), start.checkpoint
    began_at, began = checkpoint.step if checkpoint else 0, time.monotonic()
    if not (checkpoint and checkpoint.complete):
        require(store, city, spec, name)
        with run_lease(store, spec) as lease:
            values = start.counts, start.origin, start.initial, ranks, cores, cache, lease, start.rules
            job = RankJob(store, city, spec, name, *values)
            checkpoint = _run_job(job, launch or _launcher(spec), checkpoint)
    elif name == spec.phases[-1].name:  # the card is older than its checkpoint if it was killed in between
        write_run_card(store, city, spec)
    seconds, samples = time.monotonic() - began, spec.samples(name, start.counts)
    return PhaseSummary(name, checkpoint.steps, samples, began_at, seconds, checkpoint.metrics)


def _provenance(job: RankJob, resumed: CheckpointState | None) -> Provenance:
    """Return the provenance of the phase, with the makers of the checkpoint that it is ``resumed`` from."""
    labels, fingerprint = layout.label_dir(job.spec.dataset), job.origin.fingerprint
    data = Parent(labels, fingerprint) if fingerprint else city_parent(job.store, job.origin.city_id)
    earlier = resumed.provenance if resumed else None
    parents = earlier.parents if earlier else (data, job.start.as_parent if job.start else None)
    return made(parents, earlier)


def _run_job(job: RankJob, launch: Launcher, resumed: CheckpointState | None) -> CheckpointState:
    """Train the phase of ``job`` and return its last checkpoint; the run's card is current afterwards."""
    job = replace(job, provenance=_provenance(job, resumed))
    write_run_card(job.store, job.city, job.spec)  # from the start, for those who look at a running run
    _restart_ranks(job, launch)
    checkpoint = latest_checkpoint(job.store, job.spec.run, job.phase)
    if checkpoint is None or not checkpoint.complete:
        raise IncompleteError(f"training of phase {job.phase} ended before its last step: run again")
    write_run_card(job.store, job.city, job.spec)
    return checkpoint


def _restart_ranks(job: RankJob, launch: Launcher) -> None:
    run, phase, restarts = job.spec.run, job.phase, job.spec.restarts
    steps = job.spec.steps(phase, job.counts)
    deaths = 0  # in a row, without a new checkpoint
    while True:
        # Read again on every attempt: a previous holder of the lease, or ranks before they died, may
        # have saved a checkpoint since.
        checkpoint = intact_checkpoint(job.store, run, phase)
        if checkpoint and checkpoint.complete:
            return
        if checkpoint:
            check_origin(job.store, job.city, checkpoint, job.origin)
        done = checkpoint.step if checkpoint else 0
        try:
            with Progress(f"train {phase}", steps, "steps", done=done) as progress:
                launch(replace(job, start=checkpoint or job.start), progress)
            return
        except RanksDiedError as error:
            checkpoint = latest_checkpoint(job.store, run, phase)
            reached = checkpoint.step if checkpoint else 0
            # Only deaths without progress count: a long run may lose a node any number of times.
            deaths = 1 if reached > done else deaths + 1
            if deaths > restarts:
                raise
            logger.warning(
                f"training of phase {phase}: {error.reason}; "
                f"restarted from step {reached:,} (attempt {deaths} of {restarts} without a new checkpoint)"
            )


def _launcher(spec: TrainSpec) -> Launcher:
    if spec.launcher == "local":
        return run_local
    from mcvrp.tasks.train.ranks.launch_ray import run_cluster

    return run_cluster
