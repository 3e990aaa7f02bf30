"""Ray sessions with little log output: on this machine, or on the cluster that ``RAY_ADDRESS`` names."""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import psutil
import ray
from ray.job_config import JobConfig
from ray.util import deregister_serializer, register_serializer

from mcvrp.model.errors import McvrpError, brief, reason
from mcvrp.model.problem import City
from mcvrp.shared_array import dumps
from mcvrp.tasks.support.machine import local_cores
from mcvrp.tasks.support.processes import below, descendants, is_alive, kill_all
from mcvrp.tasks.support.ray_cluster import RayNode, join_cluster, require_short

logger = logging.getLogger(__name__)

_PAUSES = (5.0, 30.0)  # seconds before Ray is started again if it did not come up
_FOLDERS = ("RAY_TMPDIR", "TMPDIR")  # variables of Ray's folder, the first that is set
_PASSING = (BlockingIOError, ConnectionError, TimeoutError)  # OSErrors of a busy machine
_CORES_SECONDS = 60.0  # from the start of a cluster's head to its first node with cores
_LOOK_SECONDS = 1.0  # between two looks for it
_REASON_LENGTH = 120  # characters of Ray's message in an error message
_OBJECT_STORE = 256 * 2**20  # bytes; workers get a recipe and return receipts
_ESSENTIAL = ("gcs_server", "raylet")  # processes of Ray without which a session has ended
ENDED = "Ray has ended on this machine: run the command again to resume"
_BREAKPOINT = "PYTHONBREAKPOINT"  # set by Ray, besides its own variables
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_METRICS_EXPORT_INTERVAL_MS": "3600000",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


@dataclass
class _Connection:
    """Connection of this process to Ray, which allows one at a time."""

    node: RayNode | None = None  # through which a cluster was joined
    local: Sequence[psutil.Process] = ()  # those of Ray on this machine that it cannot do without
    keeper: contextlib.ExitStack | None = None  # of local sessions: see `kept_ray`


_CONNECTION = _Connection()


class ClusterLost(McvrpError):
    """The connected cluster is gone; another session may join it when it is back."""

    exit_code = 1


@contextlib.contextmanager
def ray_session(workers: int | None = None, *, shared_bytes: int = 0) -> Iterator[int]:
    """Hold a Ray session and yield the number of one-core tasks that it can run at once.

    It has ``workers`` cores (default: all); on a cluster, room for objects of ``shared_bytes``.
    McvrpError if there are fewer cores or none, the cluster at ``RAY_ADDRESS`` (Ray's own variable) does not
    answer, or Ray does not come up on this machine after several attempts.
    """
    address = os.environ.get("RAY_ADDRESS")
    if (keeper := _CONNECTION.keeper) and not address:
        if _has_ended():
            keeper.close()
        if not ray.is_initialized():
            keeper.enter_context(_session(None, workers))
    if ray.is_initialized():
        with _unwrapped_signals():
            yield _checked_cores(workers, _cluster_cores(), "the Ray session")
        return
    with _session(address, workers, shared_bytes=shared_bytes) as cores:
        yield cores


@contextlib.contextmanager
def _session(address: str | None, workers: int | None, *, shared_bytes: int = 0) -> Iterator[int]:
    with (
        _environment(_QUIET),
        _signal_handlers() as restore,
        _unwrapped_signals(),
        _joined(address, shared_bytes) if address else _started(workers) as cores,
    ):
        restore()  # `ray.init` has replaced the handlers of Ctrl-C and SIGTERM
        yield _checked_cores(workers, cores, f"the cluster at {address}" if address else "this machine")


@contextlib.contextmanager
def kept_ray() -> Iterator[None]:
    """Keep the first session on this machine for the following ones: to start one takes 5 s of a core.

    Those on a cluster end as without it, because a lost cluster has to be joined again.
    """
    before = _CONNECTION.keeper
    with contextlib.ExitStack() as stack:
        _CONNECTION.keeper = stack
        try:
            yield
        finally:
            _CONNECTION.keeper = before


def require_cluster() -> None:
    """Raise ClusterLost if the connected cluster is gone, or Ray on this machine; Ray itself waits for it."""
    if (node := _CONNECTION.node) and not node.alive():
        raise ClusterLost(f"the Ray cluster at {os.environ.get('RAY_ADDRESS')} is gone: start it again")
    if _has_ended():
        raise ClusterLost(ENDED)


def _has_ended() -> bool:
    """Return whether Ray on this machine has lost a process that it cannot do without."""
    return not all(map(is_alive, _CONNECTION.local))


class CoreCount:
    """Number of cores of the cluster, as seen by one of its workers some time ago.

    Ray ends a driver that asks itself, without a message, if the cluster's head has been restarted.
    """

    def __init__(self) -> None:
        self._ask = ray.remote(num_cpus=0, max_retries=0)(_cluster_cores)
        self._pending: ray.ObjectRef | None = None

    def __call__(self) -> int | None:
        """Return the result of the previous call's task, and submit the next; None if there is none yet."""
        if _CONNECTION.node is None:
            return None  # a session on this machine keeps its cores
        count = None
        if self._pending is not None:
            if not ray.wait([self._pending], timeout=0)[0]:
                return None
            with contextlib.suppress(ray.exceptions.RayError):  # submitted again below
                count = max(1, ray.get(self._pending))
        self._pending = None
        with contextlib.suppress(ray.exceptions.RayError):  # the head has just been restarted
            self._pending = self._ask.remote()
        return count


@contextlib.contextmanager
def _joined(address: str, shared_bytes: int) -> Iterator[int]:
    """Hold a connection to the cluster at ``address`` and yield its number of cores."""
    with contextlib.ExitStack() as stack:
        _CONNECTION.node = join_cluster(address, stack, shared_bytes=shared_bytes, options=_options())
        try:
            yield _first_cores(address, _CORES_SECONDS)
        finally:
            _CONNECTION.node = None


def _first_cores(address: str, seconds: float) -> int:
    """Return the number of cores of the cluster, whose head has none, waiting ``seconds`` for the first."""
    deadline = time.monotonic() + seconds
    if not _cluster_cores():
        logger.info("the cluster at %s has no cores yet, waiting %.0f s for a node", address, seconds)
    while not (cores := _cluster_cores()) and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
        require_cluster()  # Ray ends a driver that asks a head that has been restarted
    return cores


@contextlib.contextmanager
def _started(workers: int | None) -> Iterator[int]:
    """Hold Ray on this machine and yield the number of its cores."""
    cores, started = _checked_cores(workers, local_cores(), "this machine"), list[psutil.Process]()
    try:
        started = _start(cores)
        _CONNECTION.local = list(filter(_is_essential, started))
        # All workers are on this machine: the matrix of a city is not copied to Ray's object store.
        register_serializer(City, serializer=dumps, deserializer=pickle.loads)
        try:
            yield cores
        finally:  # the next session may be on a cluster, which needs the content
            deregister_serializer(City)
    finally:
        _CONNECTION.local = ()
        # Ray kills a raylet that takes more than a second to end; its agents then look for their head for
        # another minute.
        own = [process for root in started for process in (root, *below(root.pid))]
        try:
            ray.shutdown()
        finally:
            kill_all(own)


def _start(cores: int) -> list[psutil.Process]:
    before = descendants(os.getpid())
    variable = next((name for name in _FOLDERS if name in os.environ), _FOLDERS[0])
    folder = os.environ.get(variable, "")
    require_short(f"{folder}/ray", variable)
    # several times: a busy machine may take longer than the 30 s that Ray allows
    for pause in (*_PAUSES, None):
        try:
            ray.init(
                address="local",
                num_cpus=cores,
                num_gpus=0,
                include_dashboard=False,
                object_store_memory=_OBJECT_STORE,
                **_options(),
            )
            break
        except Exception as error:  # Ray raises a bare one
            ray.shutdown()
            kill_all(_new_descendants(before))
            why = brief(reason(error), _REASON_LENGTH)
            if isinstance(error, OSError | ValueError) and not isinstance(error, _PASSING):
                where = f" in {variable}={folder}" if folder else ""
                raise McvrpError(
                    f"Ray cannot start on this machine{where} ({why}): correct that, or set RAY_TMPDIR to "
                    "another folder"
                ) from error
            if pause is None:
                raise McvrpError(
                    f"Ray did not start on this machine in {len(_PAUSES) + 1} attempts ({why}): run the "
                    "command again when the machine is less busy, finished work is kept"
                ) from error
            logger.warning("Ray did not start (%s), next attempt in %g s", why, pause)
            time.sleep(pause)
    return _new_descendants(before)


def _is_essential(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):  # Ray's starters end by themselves
        return process.name() in _ESSENTIAL
    return False


def _new_descendants(before: Collection[int]) -> list[psutil.Process]:
    return [process for process in below(os.getpid()) if process.pid not in before]


def _cluster_cores() -> int:
    return int(ray.cluster_resources().get("CPU", 0))


def _checked_cores(workers: int | None, cores: int, where: str) -> int:
    if cores < 1:
        raise McvrpError(f"{where} has no cores: start a node with cores, and repeat the command")
    if workers is not None and workers > cores:
        raise McvrpError(
            f"{workers} workers were requested, but {where} has {cores} cores: request at most {cores}"
        )
    return workers or cores


def _options() -> dict[str, Any]:
    # Ray puts a driver's working directory first on its workers' path, but not that of a client, who is
    # elsewhere: a model.py or json.py in the user's folder must not be imported instead of ours.
    job_config = JobConfig(_client_job=True)
    return {"job_config": job_config, "log_to_driver": False, "logging_level": logging.ERROR}


@contextlib.contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Set variables for the processes that Ray starts, and restore them and those that Ray sets itself."""
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        for name in [*values, _BREAKPOINT, *(name for name in os.environ if name.startswith("RAY_"))]:
            os.environ.pop(name, None)
            if name in before:
                os.environ[name] = before[name]


@contextlib.contextmanager
def _signal_handlers() -> Iterator[Callable[[], None]]:
    """Yield a function that restores our handlers after Ray has replaced them; restore all at the end."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore(*keep: object) -> None:
        for number, handler in before.items():
            if handler not in (None, *keep):
                signal.signal(number, handler)

    try:
        yield lambda: restore(signal.SIG_DFL)  # Ray's own handler is better than none
    except (
        SystemExit
    ):  # of Ray's handler of SIGTERM, while it starts: Prefect knows a cancelled run by its own
        if callable(ours := before[signal.SIGTERM]):
            ours(signal.SIGTERM, None)
        raise
    finally:
        restore()


@contextlib.contextmanager
def _unwrapped_signals() -> Iterator[None]:
    """Raise what a signal handler raised while Ray waited: Ray makes a SystemError of all but Ctrl-C."""
    try:
        yield
    except SystemError as error:
        if error.__cause__ is None or isinstance(error.__cause__, Exception):
            raise
        raise error.__cause__ from None
