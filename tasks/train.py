"""Training by curriculum: phases in turn, each from where it stands, then the model is published."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model.errors import McvrpError
from model.problem import City
from storage.checkpoints import CheckpointState, Origin, latest_checkpoint
from storage.labels import shards
from storage.layout import phase_dir
from storage.manifest import fingerprint
from storage.models import ModelCard, export_model
from storage.store import Store
from tasks.hardware import local_cores
from tasks.progress import Progress
from tasks.train_job import RankJob
from tasks.train_launch import require_cores, run_local
from tasks.train_spec import NetworkSpec, PhaseSpec, TrainSpec

__all__ = ["NetworkSpec", "PhaseSpec", "PhaseSummary", "TrainSpec", "TrainSummary", "train", "train_phase"]

_SHARE = 32  # samples of a rank, at least, where ranks are not given
Launcher = Callable[[RankJob, Progress], None]


@dataclass(frozen=True)
class PhaseSummary:
    """A finished phase: ``began_at`` is the step that this call went on from, ``metrics`` its last row."""

    phase: str
    steps: int
    samples: int
    began_at: int
    seconds: float
    metrics: Mapping[str, Any]


@dataclass(frozen=True)
class TrainSummary:
    """A finished run and the model that it published."""

    run: str
    phases: tuple[PhaseSummary, ...]
    model: ModelCard


def train(store: Store, city: City, spec: TrainSpec, launch: Launcher | None = None) -> TrainSummary:
    """Train all phases of ``spec`` that are not finished, and publish the model.

    Raises as `train_phase` does.
    """
    phases = tuple(train_phase(store, city, spec, phase.name, launch) for phase in spec.phases)
    return TrainSummary(spec.run, phases, publish(store, spec))


def publish(store: Store, spec: TrainSpec) -> ModelCard:
    """Publish the weights of the run's last phase; the same weights are published once.

    Raises
    ------
    McvrpError
        If the last phase is not finished.
    """
    last = spec.phases[-1]
    final = _finished(store, spec, last.name, f"model {spec.model!r}")
    return export_model(store, spec.model, final, dataset=spec.dataset, rotation_trained=last.rotation)


def train_phase(
    store: Store, city: City, spec: TrainSpec, name: str, launch: Launcher | None = None
) -> PhaseSummary:
    """Train the phase ``name`` from its last checkpoint, or from the end of the phase before it.

    Parameters
    ----------
    launch
        How ranks are started; None does as ``spec.launcher`` says.

    Raises
    ------
    McvrpError
        If there is no such phase, labels are missing, the phase before is not finished, the
        batch cannot be shared, or a checkpoint is there that was made with something else.
    IncompleteError
        If training ended early; running again goes on from the last checkpoint.
    """
    phase = spec.phase(name)
    cores = local_cores()
    ranks = spec.ranks or _default_ranks(spec, cores)
    _check_shares(spec, ranks)
    counts = _label_counts(store, city, spec, name)
    curriculum = spec.curriculum(name, counts)
    start, origin = _start(store, city, spec, name)
    standing = latest_checkpoint(store, spec.run, name)
    if standing:
        _check_origin(store, standing, origin)
        start = standing
    began_at = standing.step if standing else 0
    began = time.monotonic()
    if not (standing and standing.complete):
        job = RankJob(store, city, spec, name, counts, origin, start, ranks, cores)
        with Progress(f"train {phase.name}", curriculum.steps, "steps", done=began_at) as progress:
            (launch or _launcher(spec))(job, progress)
            progress.update(curriculum.steps)
        standing = _finished(store, spec, name, f"phase {name!r}")
    return PhaseSummary(
        name, curriculum.steps, curriculum.samples, began_at, time.monotonic() - began, standing.metrics
    )


def check_training(store: Store, city: City, spec: TrainSpec) -> None:
    """Check what can be checked before there are labels: ranks, and checkpoints of earlier runs.

    Raises
    ------
    McvrpError
        If the batch cannot be shared, or a checkpoint was made with something else.
    """
    cores = local_cores()
    ranks = spec.ranks or _default_ranks(spec, cores)
    if spec.launcher == "local":
        require_cores(ranks, cores)
    _check_shares(spec, ranks)
    for phase in spec.phases:
        standing = latest_checkpoint(store, spec.run, phase.name)
        if standing:
            there = standing.origin
            _check_origin(store, standing, _origin(city, spec, phase.name, there.fingerprint, there.parent))


def _origin(city: City, spec: TrainSpec, name: str, data: str, parent: str) -> Origin:
    network = {"classes": city.customers + 1, **spec.network.model_dump()}
    return Origin(city.city_id, data, network, spec.recipe(name), parent)


def _start(store: Store, city: City, spec: TrainSpec, name: str) -> tuple[CheckpointState | None, Origin]:
    """Return the checkpoint that the phase begins with, and what makes the phase what it is."""
    before = spec.before(name)
    parent = _finished(store, spec, before.name, f"phase {name!r}") if before else None
    data = fingerprint(store, spec.dataset)
    origin = _origin(city, spec, name, data, parent.weights_sha256 if parent else "")
    if parent:
        theirs = Origin(
            parent.origin.city_id, origin.fingerprint, parent.origin.network, origin.recipe, origin.parent
        )
        _check_origin(store, parent, origin, theirs)
    return parent, origin


def _finished(store: Store, spec: TrainSpec, name: str, needed_by: str) -> CheckpointState:
    state = latest_checkpoint(store, spec.run, name)
    if state is None or not state.complete:
        where = f"stands at step {state.step:,} of {state.steps:,}" if state else "has not begun"
        raise McvrpError(
            f"{needed_by} needs the finished phase {name!r} of run {spec.run!r}, which {where}: "
            f"run mcvrp train --phase {name}"
        )
    return state


def _check_origin(store: Store, state: CheckpointState, wanted: Origin, found: Origin | None = None) -> None:
    differences = (found or state.origin).differences(wanted)
    if differences:
        name, theirs, ours = differences[0]
        more = f" (and {len(differences) - 1} more)" if len(differences) > 1 else ""
        raise McvrpError(
            f"phase {state.phase!r} of run {state.run!r} was trained with {name} = {theirs}, "
            f"now it is {ours}{more}: name the run differently or delete "
            f"{store.url(phase_dir(state.run, state.phase))}"
        )


def _check_shares(spec: TrainSpec, ranks: int) -> None:
    micro = spec.micro_batch or 1
    if spec.batch % (ranks * micro):
        pieces = f"{ranks} ranks" + (f" of micro_batch {micro}" if spec.micro_batch else "")
        raise McvrpError(
            f"train.batch = {spec.batch} cannot be shared by {pieces}: give a multiple of {ranks * micro}"
        )


def _label_counts(store: Store, city: City, spec: TrainSpec, name: str) -> tuple[int, ...]:
    """Return how many labels there are of each size of the phase, from the smallest up."""
    sizes = spec.sizes(name)
    if sizes[-1] > city.customers:
        raise McvrpError(
            f"phase {name!r} trains on {sizes[-1]} customers, the city {city.city_id} has {city.customers}"
        )
    rows, reached = dict.fromkeys(sizes, 0), dict.fromkeys(sizes, 0)
    for shard in shards(store, spec.dataset):
        footer = shard.footer
        if footer.city_id != city.city_id:
            raise McvrpError(
                f"the labels {store.url(shard.path)} are of city {footer.city_id}, not of city {city.city_id}"
            )
        if footer.n in rows and footer.row_start == reached[footer.n]:  # up to the first gap
            rows[footer.n] += footer.rows
            reached[footer.n] = footer.row_stop
    missing = [size for size, count in rows.items() if not count]
    if missing:
        raise McvrpError(
            f"dataset {spec.dataset!r} has no labels of {_ranges(missing)} customers, "
            f"phase {name!r} trains on {sizes[0]} to {sizes[-1]}: run mcvrp label "
            f"--set label.smallest={sizes[0]} --set label.largest={sizes[-1]}"
        )
    return tuple(rows.values())


def _ranges(numbers: list[int]) -> str:
    """Return ascending numbers as a person writes them: "20-24, 30"."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    return ", ".join("-".join(map(str, part)) for part in parts)


def _launcher(spec: TrainSpec) -> Launcher:
    if spec.launcher == "local":
        return run_local
    from tasks.train_cluster import run_cluster  # Ray takes seconds to import

    return run_cluster


def _gpus() -> int:
    if not Path("/proc/driver/nvidia").exists():  # do not ask torch, whose import takes seconds
        return 0
    import torch

    return torch.cuda.device_count()


def _default_ranks(spec: TrainSpec, cores: int) -> int:
    """Return one rank a GPU; without any, one a core where each has enough to do.

    On idle cores two ranks of one thread train a small network 1.8 times as fast as one rank
    of two threads (BENCHMARKS.md): threads meet after every operation, ranks once a step.
    """
    if gpus := _gpus():
        return gpus
    piece = spec.micro_batch or 1
    shares = [r for r in range(1, cores + 1) if spec.batch % (r * piece) == 0]
    return max((r for r in shares if spec.batch // r >= _SHARE), default=1)
