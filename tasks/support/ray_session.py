"""Ray: a session on this machine or on the cluster of ``RAY_ADDRESS``, and tasks in it over many items.

Of a cluster this machine has to be a node. Of the tasks, a bounded number is in flight.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import pickle
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

import ray
from ray.job_config import JobConfig
from ray.util import deregister_serializer, register_serializer

from mcvrp.model.errors import McvrpError, brief, reason
from mcvrp.model.problem import City
from mcvrp.shared_array import dumps
from mcvrp.storage.store.errors import StoreError
from mcvrp.tasks.support.machine import local_cores
from mcvrp.tasks.support.processes import environment

T = TypeVar("T")

_REASON_LENGTH = 120  # characters of Ray's message in an error message
_CONNECT_SECONDS = 8.0  # for the port of a cluster's head to open
_LOOK_SECONDS = 1.0  # for the same of a running session
_OBJECT_STORE = 256 * 2**20  # bytes; workers get a recipe and return receipts
WINDOW = 2  # tasks per worker in flight: one running, one waiting
WAIT_SECONDS = 0.5  # of a single wait for results, so that Ctrl-C is not held up for longer
_LOOK_EVERY = 2.0  # between two looks whether Ray is there
RETRIES = 2  # by Ray, of a worker that died
_QUIET = {  # of the processes that Ray starts
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_METRICS_EXPORT_INTERVAL_MS": "3600000",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


_servers: list[tuple[str, int]] = []  # of the session, of which a process has one at a time


class ClusterLost(McvrpError):
    """Ray is gone, or the node of this process; a later session may find it again."""

    exit_code = 1


@contextlib.contextmanager
def ray_session(workers: int | None = None) -> Iterator[int]:
    """Hold a Ray session and yield the number of one-core tasks that it can run at once.

    That is ``workers``, by default the number of its cores. A session within another one is the same.
    McvrpError if there are fewer cores or none, Ray does not start on this machine, or the cluster at
    ``RAY_ADDRESS`` (Ray's own variable) does not answer or has no node here.
    """
    if ray.is_initialized():
        with _unwrapped_signals():
            yield _checked(workers, cluster_cores(), "the Ray session")
        return
    address = os.environ.get("RAY_ADDRESS")
    where = f"the cluster at {address}" if address else "this machine"
    with environment(_QUIET), _unwrapped_signals():
        try:
            if address:
                _join(address)
            else:
                _start(_checked(workers, local_cores(), where))
                # All workers are on this machine: the matrix of a city is not copied to Ray's object store.
                register_serializer(City, serializer=dumps, deserializer=pickle.loads)
            _servers.extend(_own_servers())
            yield _checked(workers, cluster_cores(), where)
        finally:  # the next session may be on a cluster, which needs the content of a city
            _servers.clear()
            deregister_serializer(City)
            ray.shutdown()


def require_answer(address: str) -> None:
    """Raise McvrpError if nothing listens at ``address`` (host:port), which `ray.init` tries for minutes."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS).close()
    except (OSError, ValueError) as error:
        raise McvrpError(
            f"no Ray cluster answers at RAY_ADDRESS={address}: start it, or unset RAY_ADDRESS to use this "
            "machine"
        ) from error


def require_cluster() -> None:
    """Raise ClusterLost if the head is gone, or the node of this process.

    Ray itself would wait: for a node without end, for a head a minute, and then end this process.
    """
    for address in _servers:
        try:
            socket.create_connection(address, timeout=_LOOK_SECONDS).close()
        except ConnectionRefusedError as error:
            where = f"{address[0]}:{address[1]}"
            raise ClusterLost(f"Ray at {where} is gone: run the command again to resume") from error
        except OSError:  # a link that is down may come back
            continue


def windowed(
    work: Callable[..., Any],
    items: Iterable[T],
    workers: int,
    shared: object,
    *,
    refusals: bool = False,
    tick: Callable[[], object] | None = None,
) -> Iterator[tuple[T, Any]]:
    """Yield each item with ``work(item, shared)``, in the order of completion.

    ``items`` are consumed as ``workers`` become free, ``shared`` is sent once. If the worker of an item died
    in spite of Ray's retries, its result is the `ray.exceptions.RayError`; with ``refusals``, that of an item
    refused by ``work`` is the McvrpError, which is raised otherwise, as a StoreError always is. ClusterLost
    if Ray is gone. ``tick`` is called at least twice a second: it may end all by an error.
    """
    remote = ray.remote(num_cpus=1, max_retries=RETRIES)(work)
    context = ray.put(shared)
    waiting = iter(items)
    in_flight: dict[ray.ObjectRef, T] = {}
    looked = -math.inf
    while True:
        if time.monotonic() - looked > _LOOK_EVERY:
            require_cluster()
            looked = time.monotonic()
        if tick:
            tick()
        for item in islice(waiting, max(0, WINDOW * workers - len(in_flight))):
            in_flight[remote.remote(item, context)] = item
        if not in_flight:
            return
        done, _ = ray.wait(list(in_flight), num_returns=1, timeout=WAIT_SECONDS)
        for reference in done:
            yield in_flight.pop(reference), _result(reference, refusals)


def _result(reference: ray.ObjectRef, refusals: bool) -> Any:
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        if not isinstance(error.cause, McvrpError):
            raise
        if isinstance(error.cause, StoreError) or not refusals:
            raise error.cause from None
        return error.cause
    except ray.exceptions.LocalRayletDiedError:  # says nothing about the item
        require_cluster()
        raise
    except ray.exceptions.RayError as error:
        return error


def _own_servers() -> list[tuple[str, int]]:
    """Return host and port of the cluster's head, and of the node of this process."""
    context = ray.get_runtime_context()
    host, _, port = context.gcs_address.rpartition(":")
    own = next(node for node in ray.nodes() if node["NodeID"] == context.get_node_id())
    return [(host.strip("[]"), int(port)), (own["NodeManagerAddress"], own["NodeManagerPort"])]


def _start(cores: int) -> None:
    options = {"num_cpus": cores, "num_gpus": 0, "include_dashboard": False}
    options["object_store_memory"] = _OBJECT_STORE
    try:
        _connect("local", **options)
    except Exception as error:
        raise McvrpError(
            f"Ray did not start on this machine ({brief(reason(error), _REASON_LENGTH)}): set RAY_TMPDIR to "
            "another folder with a short path, or run the command again when the machine is less busy"
        ) from error


def _join(address: str) -> None:
    require_answer(address)
    try:
        _connect(address)
    except Exception as error:  # Ray raises whatever its client library raises
        raise McvrpError(
            f"cannot use RAY_ADDRESS={address} ({brief(reason(error), _REASON_LENGTH)}): make this machine a "
            f"node of the cluster (ray start --address={address} --num-cpus=0, with its RAY_AUTH_TOKEN), "
            "or use `ray job submit`"
        ) from error


def _connect(address: str, **options: Any) -> None:
    ours = signal.getsignal(signal.SIGTERM)
    # Ray puts a driver's working directory first on its workers' path, but not that of a client, who is
    # elsewhere: a model.py or json.py in the user's folder must not be imported instead of ours.
    job_config = JobConfig(_client_job=True)
    ray.init(
        address=address, job_config=job_config, log_to_driver=False, logging_level=logging.ERROR, **options
    )
    # Ray has replaced the handler by which the command ends, and Prefect knows a cancelled run.
    if ours is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, ours)


def cluster_cores() -> int:
    """Return the number of cores of the session."""
    return int(ray.cluster_resources().get("CPU", 0))


def _checked(workers: int | None, cores: int, where: str) -> int:
    if cores < 1:
        raise McvrpError(f"{where} has no cores: start a node with cores, and repeat the command")
    if workers is not None and workers > cores:
        raise McvrpError(
            f"{workers} workers were requested, but {where} has {cores} cores: request at most {cores}"
        )
    return workers or cores


@contextlib.contextmanager
def _unwrapped_signals() -> Iterator[None]:
    """Raise what a signal handler raised while Ray waited: Ray makes a SystemError of all but Ctrl-C."""
    try:
        yield
    except SystemError as error:
        if error.__cause__ is None or isinstance(error.__cause__, Exception):
            raise
        raise error.__cause__ from None
