"""Starting the ranks of a phase on a Ray cluster, by Ray Train; every node has to reach the store."""

from __future__ import annotations

import contextvars
import os
import threading
from collections.abc import Mapping
from typing import Any

import psutil
import ray
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer
from ray.util.queue import Empty, Queue

from mcvrp.model.errors import McvrpError
from mcvrp.storage.store.lease import Lease
from mcvrp.tasks.support.progress import Progress
from mcvrp.tasks.support.ray_session import ray_session
from mcvrp.tasks.support.scratch import scratch_folder
from mcvrp.tasks.train.job import RankJob, ranks_died
from mcvrp.tasks.train.ranks.launch import follow_event

_POLL_SECONDS = 0.5


def run_cluster(job: RankJob, progress: Progress) -> None:
    """Train the phase of ``job`` with ``job.ranks`` Ray workers, on GPUs where the cluster has some.

    Raises
    ------
    McvrpError
        If a rank refused to go on, or the cluster has fewer cores, or GPUs if any, than ranks.
    RanksDiedError
        If a rank failed or its node was lost; names the last checkpoint.
    """
    with ray_session(job.ranks), scratch_folder("train") as folder:
        gpus = _on_gpus(job.ranks, int(ray.cluster_resources().get("GPU", 0)))
        reports = Queue(actor_options={"num_cpus": 0})  # no core of its own: all are the ranks'
        trainer = TorchTrainer(
            _worker,
            train_loop_config={"job": job.for_ranks(), "reports": reports},
            torch_config=_Meeting(),
            scaling_config=ScalingConfig(num_workers=job.ranks, use_gpu=gpus),
            # Ray Train wants a place for checkpoints of its own; ours go to the store.
            run_config=RunConfig(name=f"{job.spec.run}-{job.phase}", storage_path=folder),
        )
        follower = _Follower(job.lease, reports, progress)
        try:
            trainer.fit()
        except Exception as error:  # whatever a worker met, wrapped by Ray Train
            refused_by = follower.stop()
            if refused_by:
                raise refused_by from error
            reason = next((line for line in reversed(str(error).splitlines()) if line.strip()), "no reason")
            raise ranks_died(job, reason.strip()) from error
        finally:
            refused_by = follower.stop()
            reports.shutdown(force=True)
        if refused_by:
            raise refused_by


def _on_gpus(ranks: int, gpus: int) -> bool:
    """Return whether each rank gets a GPU; where some would and some not, these would hold up those."""
    if 0 < gpus < ranks:
        raise McvrpError(f"train.ranks = {ranks}, the Ray cluster has {gpus} GPUs: ask for {gpus} or fewer")
    return gpus > 0


class _MeetingBackend(TorchConfig().backend_cls):  # type: ignore[misc]
    """Ray's own, for ranks that look for each other at the addresses of their nodes."""

    def on_start(self, worker_group: Any, backend_config: TorchConfig) -> None:
        worker_group.execute(_choose_interface)
        super().on_start(worker_group, backend_config)


class _Meeting(TorchConfig):  # type: ignore[misc]  # Ray has no types here
    """How ranks find each other."""

    @property
    def backend_cls(self) -> type[_MeetingBackend]:
        return _MeetingBackend


def _choose_interface() -> None:
    """Have Gloo take the node's interface: by the host's name, on Debian, it finds the loopback alone."""
    own = ray.util.get_node_ip_address()
    for name, addresses in psutil.net_if_addrs().items():
        if own in (address.address for address in addresses):
            os.environ.setdefault("GLOO_SOCKET_IFNAME", name)


def _worker(config: dict[str, Any]) -> None:
    from mcvrp.tasks.train.loop import take_part  # here: it imports DeepSpeed, which the driver needs not

    def send(event: Mapping[str, Any]) -> None:
        config["reports"].put(dict(event))

    cores = int(os.environ["LOCAL_WORLD_SIZE"])  # one core a rank
    error = take_part(config["job"], int(os.environ["RANK"]), cores, send)
    if error:
        raise error


class _Follower:
    """Shows the reports of rank 0 in a thread of its own, as Ray Train keeps the caller's."""

    def __init__(self, lease: Lease, reports: Queue, progress: Progress) -> None:
        self._lease, self._reports, self._progress = lease, reports, progress
        self._refusal: McvrpError | None = None
        self._over = threading.Event()
        listeners = contextvars.copy_context()  # of the caller's progress
        self._thread = threading.Thread(target=listeners.run, args=(self._follow,), daemon=True)
        self._thread.start()

    def stop(self) -> McvrpError | None:
        """Show what is left and return the refusal, if there was one."""
        self._over.set()
        self._thread.join()
        return self._refusal

    def _follow(self) -> None:
        while True:
            over = self._over.is_set()
            try:
                event = self._reports.get(timeout=_POLL_SECONDS)
            except Empty:
                if over:
                    return
                continue
            try:
                self._lease.check()
                self._refusal = follow_event(event, self._progress) or self._refusal
            except McvrpError as error:  # another has taken over
                self._refusal = error
                self._reports.shutdown(force=True)  # the next report fails, and its rank with it
                return
