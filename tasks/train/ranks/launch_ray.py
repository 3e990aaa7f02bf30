"""Launcher of the ranks of a phase on a Ray cluster, by Ray Train; every node has to reach the store."""

from __future__ import annotations

import contextvars
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from tempfile import TemporaryDirectory
from typing import Any

import ray
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from ray.util.queue import Empty, Queue

from mcvrp.model.errors import McvrpError
from mcvrp.tasks.support.progress import Progress
from mcvrp.tasks.support.ray_session import ray_session
from mcvrp.tasks.train.job import RankEvent, RankJob, ranks_died
from mcvrp.tasks.train.ranks.launch import follow_event

_POLL_SECONDS = 0.5


def run_cluster(job: RankJob, progress: Progress) -> None:
    """Train the phase of ``job`` with ``job.ranks`` Ray workers, on GPUs if the cluster has any.

    McvrpError if a rank ended with an error for the user, or the cluster has fewer cores (or GPUs) than
    ranks; RanksDiedError, with the last checkpoint, if a rank failed or its node was lost.
    """
    with (
        ray_session(job.ranks),
        TemporaryDirectory(prefix="mcvrp-train-", ignore_cleanup_errors=True) as folder,
    ):
        gpus = _on_gpus(job.ranks, int(ray.cluster_resources().get("GPU", 0)))
        reports = Queue(actor_options={"num_cpus": 0})  # all cores are for the ranks
        trainer = TorchTrainer(
            _worker,
            train_loop_config={"job": job, "reports": reports},
            scaling_config=ScalingConfig(num_workers=job.ranks, use_gpu=gpus),
            # Ray Train requires a folder for checkpoints; ours go to the store.
            run_config=RunConfig(name=f"{job.spec.run}-{job.phase}", storage_path=folder),
        )
        over, failure = threading.Event(), None
        context = contextvars.copy_context()  # listeners of the caller's progress are a context variable
        try:
            with ThreadPoolExecutor(1) as pool:  # Ray Train blocks this thread
                following = pool.submit(context.run, _follow, job, reports, progress, over)
                try:
                    trainer.fit()
                except Exception as error:  # the worker's error, wrapped by Ray Train
                    failure = error
                finally:
                    over.set()
        finally:
            reports.shutdown(force=True)
        # The queue may be lost together with the ranks.
        refusal = None if following.exception() else following.result()
        if refusal:
            raise refusal from failure
        if failure:
            reason = next((line for line in reversed(str(failure).splitlines()) if line.strip()), "no reason")
            raise ranks_died(job, reason.strip()) from failure


def _on_gpus(ranks: int, gpus: int) -> bool:
    """Return whether each rank gets a GPU; if only some did, they would wait for the others."""
    if 0 < gpus < ranks:
        raise McvrpError(f"train.ranks = {ranks}, the Ray cluster has {gpus} GPUs: ask for {gpus} or fewer")
    return gpus > 0


def _worker(config: dict[str, Any]) -> None:
    from mcvrp.tasks.train.trainer import run_rank  # here: it imports DeepSpeed, which the driver needs not

    cores = int(os.environ["LOCAL_WORLD_SIZE"])  # one core per rank
    error = run_rank(config["job"], int(os.environ["RANK"]), cores, config["reports"].put)
    if error:
        raise error


def _follow(job: RankJob, reports: Queue, progress: Progress, over: threading.Event) -> McvrpError | None:
    """Follow the events of the ranks to the last one after ``over``; return the refusal, if there was one."""
    refusal: McvrpError | None = None
    while True:
        ended = over.is_set()
        try:
            event: RankEvent = reports.get(timeout=_POLL_SECONDS)
        except Empty:
            if ended:
                return refusal
            continue
        try:
            refusal = follow_event(job, event, progress) or refusal
        except McvrpError as error:  # another process has taken over
            reports.shutdown(force=True)  # the next report fails, and its rank with it
            return error
