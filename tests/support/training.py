"""Small labelled datasets and small training runs for the tests of training; no solver needed."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mcvrp.model.canonical_form import canonical
from mcvrp.model.instances import InstanceStream
from mcvrp.model.network import FmMcvrp, NetworkConfig
from mcvrp.model.problem import City, Instance, Solution
from mcvrp.storage.labels.label_files import write_labels
from mcvrp.storage.layout import label_file, size_dir
from mcvrp.storage.store.lease import Lease
from mcvrp.storage.store.store import Store
from mcvrp.storage.training.checkpoints import CheckpointState, Moments, Origin, save_checkpoint
from mcvrp.storage.training.metrics import read_metrics
from mcvrp.tasks.support.progress import Progress
from mcvrp.tasks.train.job import RankJob
from mcvrp.tasks.train.spec import NetworkSpec, PhaseSpec, TrainSpec
from tests.support.labels import label_of, sweep

CITY = City.uniform(60, seed=3)


class StoppedHere(Exception):
    """An end of a run before its time."""


def alone(city: City, instance: Instance) -> Solution:
    return canonical(city, Solution.of([[int(node)] for node in instance.ids]))


def nudge(job: RankJob, progress: Progress) -> None:
    """Stand in for the ranks, whose work other tests look at: every weight moves a little, by run."""
    steps = job.spec.curriculum(job.phase, job.counts).steps
    if initial := job.initial_weights():
        step = np.float32(0.01 + 0.01 * zlib.crc32(job.spec.run.encode()) / 2**32)
        weights = {name: array + step for name, array in initial.items()}
    else:
        torch.manual_seed(0)  # the same weights whatever ran before
        network = FmMcvrp(NetworkConfig(**job.origin.network))
        weights = {name: p.detach().numpy() for name, p in network.named_parameters()}
    state = CheckpointState(job.spec.run, job.phase, steps, steps, steps, job.origin, {})
    save_checkpoint(job.store, state, weights, Moments({}, {}))


def write_dataset(
    store: Store,
    city: City,
    sizes: range,
    count: int,
    name: str = "tiny",
    solve: Callable[[City, Instance], Solution] = sweep,
) -> None:
    stream = InstanceStream(city, 1, "train")
    for n in sizes:
        instances = [stream(n, i) for i in range(count)]
        labels = [label_of(city, each, i, solve(city, each)) for i, each in enumerate(instances)]
        store.delete(size_dir(name, n))  # of an earlier number of rows
        write_labels(store, label_file(name, n, 0, len(labels)), city, "tests", labels)


def rank_job(store: Store, phase: str, **changes: Any) -> RankJob:
    """Return a job of the only rank for ``phase`` of `small_spec`, with ``changes``."""
    values: dict[str, Any] = {
        "city": CITY,
        "spec": small_spec(),
        "counts": (30, 30, 30),
        "origin": Origin(CITY.city_id, "f" * 64, {}, {}, ""),
        "start": None,
        "ranks": 1,
        "cores": 1,
        "cache": Path(),
        "lease": Lease(store, ".lease", 1, b"", "the run is being trained"),
    }
    return RankJob(store=store, phase=phase, **values | changes)


def metric_rows(store: Store, run: str, phase: str) -> np.ndarray:
    metrics = [vars(row) for row in read_metrics(store, run, phase)]
    return np.array(
        [[value for name, value in row.items() if name != "tokens_per_second"] for row in metrics]
    )


def small_spec(**changes: object) -> TrainSpec:
    values: dict[str, object] = {
        "run": "small",
        "dataset": "tiny",
        "model": "small",
        "network": NetworkSpec(dim=16, heads=2, encoder_layers=1, decoder_layers=1, ff=32, dropout=0.1),
        "phases": (
            PhaseSpec(name="I", first=20, last=22, trunc=24, trains="encoder", lr=0.01),
            PhaseSpec(
                name="II", first=22, last=22, schedule="knee", lr=0.005, warmup=4, tail=0.3, rotation=True
            ),
        ),
        "batch": 12,
        "checkpoint_every": 5,
        "log_every": 1,
    }
    return TrainSpec(**values | changes)
