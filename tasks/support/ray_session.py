"""A quiet Ray session: on this machine, or on the cluster whose address the environment names."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from typing import Any

import psutil
import ray
from ray.job_config import JobConfig

from mcvrp.model.errors import McvrpError, brief, reason
from mcvrp.tasks.support.machine import local_cores
from mcvrp.tasks.support.processes import below, descendants, kill_all
from mcvrp.tasks.support.ray_node import RayNode, last_line, ray_node

logger = logging.getLogger(__name__)

_ANSWER_SECONDS = 8.0  # for a cluster's port to open
_SPEECH_SECONDS = 40.0  # for Ray to speak; starting to ask it takes 2 s of a core, which may be a busy one
_REJOIN_SECONDS = 3.0  # between two tries
_PAUSES = (5.0, 30.0)  # seconds before Ray is started again where it did not come up
_WHY = 120  # characters of what Ray says then
_HEAD_SECONDS = 60.0  # from a head's first word to the node that others need to join
_OBJECT_STORE = 256 * 2**20  # bytes; workers get a city and return receipts
_BREAKPOINT = "PYTHONBREAKPOINT"  # Ray sets it, and variables of its own
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_METRICS_EXPORT_INTERVAL_MS": "3600000",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


_node: RayNode | None = None  # that the session works through, where it has joined a cluster
_keeper: tuple[contextlib.ExitStack, int] | None = None  # who ends the session that stays; its shared bytes


class ClusterLost(McvrpError):
    """The cluster that a session has joined is gone; another session may join it when it is back."""

    exit_code = 1


@contextlib.contextmanager
def ray_session(
    workers: int | None = None, *, shared_bytes: int = 0, patience: float = 0.0, verbose: bool = False
) -> Iterator[int]:
    """Hold a Ray session and yield the number of one-core tasks that it can run at once.

    Parameters
    ----------
    workers
        Cores to use; None takes all that there are.
    shared_bytes
        Size of what all workers will share.
    patience
        Seconds that a cluster which does not answer is given to come back.
    verbose
        Let Ray and its workers write to the terminal.

    Raises
    ------
    McvrpError
        If there are fewer cores than asked, ``RAY_ADDRESS`` (Ray's own variable) names a cluster that
        does not answer, or Ray does not come up here, after some tries.
    """
    global _keeper
    address = os.environ.get("RAY_ADDRESS")
    if _keeper and not address and not ray.is_initialized():
        (stack, most), _keeper = _keeper, None
        stack.enter_context(ray_session(workers, shared_bytes=max(shared_bytes, most), verbose=verbose))
    if ray.is_initialized():
        with _stops_unwrapped():
            yield _enough(workers, _cluster_cores(), "the Ray session")
        return
    started: list[psutil.Process] = []
    with (
        _environment({} if verbose else _QUIET),
        _signal_handlers() as restore,
        contextlib.ExitStack() as stack,
        _stops_unwrapped(),
    ):
        try:
            if address:
                _connect(address, stack, patience, shared_bytes, verbose)
                count = _enough(workers, _cluster_cores(), f"the cluster at {address}")
            else:
                count = _enough(workers, local_cores(), "this machine")
                started = _start(count, _OBJECT_STORE + 2 * shared_bytes, verbose)
            restore()  # `ray.init` has taken over Ctrl-C and SIGTERM
            yield count
        finally:
            # Ray kills a raylet that takes more than a second to end; its agents then look for their head
            # for a minute more.
            own = [process for root in started for process in (root, *below(root.pid))]
            try:
                ray.shutdown()
            finally:
                kill_all(own)


@contextlib.contextmanager
def kept_ray(shared_bytes: int = 0) -> Iterator[None]:
    """Keep the first session that is begun on this machine for those after it: each costs 5 s of a core.

    Sessions on a cluster end as ever, for who loses one joins the cluster again.

    Parameters
    ----------
    shared_bytes
        Size of what all workers will share, at most.
    """
    global _keeper
    before = _keeper
    with contextlib.ExitStack() as stack:
        _keeper = stack, shared_bytes
        try:
            yield
        finally:
            _keeper = before


def _start(cores: int, store_bytes: int, verbose: bool) -> list[psutil.Process]:
    """Start Ray on this machine and return its processes; again where it did not come up.

    A busy machine may take longer than the 30 s that Ray gives itself.
    """
    before = descendants(os.getpid())
    for pause in (*_PAUSES, None):
        try:
            ray.init(
                address="local",
                num_cpus=cores,
                num_gpus=0,
                include_dashboard=False,
                object_store_memory=store_bytes,
                **_options(verbose),
            )
            break
        except Exception as error:  # Ray raises a bare one
            ray.shutdown()
            kill_all(_started(before))
            why = brief(reason(error), _WHY)
            if pause is None:
                raise McvrpError(
                    f"Ray did not come up on this machine in {len(_PAUSES) + 1} tries ({why}): run it again "
                    "when less is going on here, it keeps what is finished"
                ) from error
            logger.warning("Ray did not come up (%s): trying again in %g s", why, pause)
            time.sleep(pause)
    return _started(before)


def _started(before: Collection[int]) -> list[psutil.Process]:
    """Return the running processes below this one, but for those with the ids ``before``."""
    return [process for process in below(os.getpid()) if process.pid not in before]


def require_cluster() -> None:
    """Raise ClusterLost where the cluster of this session is gone: Ray itself may wait for it for ever."""
    if _node is not None and not _node.lives():
        raise ClusterLost(f"the Ray cluster at {os.environ.get('RAY_ADDRESS')} is gone: start it again")


class CoreCount:
    """How many cores the cluster has, as a worker of it has seen some time ago.

    A driver that asks itself is ended by Ray, without a word, when the cluster's head has been started again.
    """

    def __init__(self) -> None:
        self._ask = ray.remote(num_cpus=0, max_retries=0)(_cluster_cores)
        self._asked: ray.ObjectRef | None = None

    def __call__(self) -> int | None:
        """Return the answer to the question of the last call, and ask again; None while there is none."""
        if _node is None:
            return None  # a session on this machine keeps its cores
        count = None
        if self._asked is not None:
            if not ray.wait([self._asked], timeout=0)[0]:
                return None
            with contextlib.suppress(ray.exceptions.RayError):  # asked again later
                count = max(1, ray.get(self._asked))
        self._asked = None
        with contextlib.suppress(ray.exceptions.RayError):  # the head has just been started again
            self._asked = self._ask.remote()
        return count


def _cluster_cores() -> int:
    return int(ray.cluster_resources().get("CPU", 0))


def _enough(asked: int | None, there: int, where: str) -> int:
    if asked is not None and asked > there:
        raise McvrpError(f"{asked} workers asked, {where} has {there} cores: ask for {there} or fewer")
    return asked or there


def require_answer(address: str) -> None:
    """Check that something answers at ``address``, and speaks Ray where that can be asked.

    Raises
    ------
    McvrpError
        If not.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdigit():
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_SECONDS).close()
        except OSError as error:
            raise _silent(address) from error
        if not address.startswith("ray://") and (said := _refusal(address)) is not None:
            raise _silent(address, said)


def _silent(address: str, said: str = "") -> McvrpError:
    words = f" ({said})" if said else ""
    return McvrpError(
        f"no Ray cluster answers at RAY_ADDRESS={address}{words}: start it, or unset RAY_ADDRESS to use this "
        "machine"
    )


def _connect(
    address: str, stack: contextlib.ExitStack, patience: float, shared_bytes: int, verbose: bool
) -> None:
    """Join the cluster at ``address`` and become its driver; ``stack`` leaves it."""
    began = time.monotonic()
    while True:
        try:
            with contextlib.ExitStack() as attempt:
                require_answer(address)
                patience = max(patience, _HEAD_SECONDS)
                _join(address, attempt, shared_bytes, verbose)
                stack.push(attempt.pop_all())
                return
        except McvrpError:
            if time.monotonic() - began > patience:
                raise
        time.sleep(_REJOIN_SECONDS)


def _join(address: str, stack: contextlib.ExitStack, shared_bytes: int, verbose: bool) -> None:
    global _node
    try:
        folder = {}
        if not address.startswith("ray://"):
            _node = stack.enter_context(ray_node(address, shared_bytes=shared_bytes))
            stack.callback(_forget_node)
            folder = {"_temp_dir": _node.folder}
        stack.callback(ray.shutdown)  # a driver goes before its node
        ray.init(address=address, **folder, **_options(verbose))
    except Exception as error:  # Ray raises whatever its client library happened to meet
        raise _silent(address, reason(error)) from error


def _forget_node() -> None:
    global _node
    _node = None


def _options(verbose: bool) -> dict[str, Any]:
    # Ray puts a driver's working directory first on its workers' path, but not that of a client, who is
    # elsewhere: a model.py or json.py in the folder of the user is not ours to import.
    job_config = JobConfig(_client_job=True)
    level = logging.INFO if verbose else logging.ERROR
    return {"job_config": job_config, "log_to_driver": verbose, "logging_level": level}


def _refusal(address: str) -> str | None:
    """Return what keeps Ray's control service at ``address`` from answering, in its words; None if it does.

    `ray.init` alone asks for minutes.
    """
    command = [sys.executable, "-P", "-m", "ray.scripts.scripts", "health-check", "--skip-version-check"]
    try:
        asked = subprocess.run(
            [*command, "--address", address], capture_output=True, text=True, timeout=_SPEECH_SECONDS
        )
    except subprocess.TimeoutExpired:
        return ""
    return None if asked.returncode == 0 else last_line(asked.stderr)


@contextlib.contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Set variables for the processes that Ray starts, and take them back, and Ray's own with them."""
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
    """Yield what puts back the handlers of our own that Ray replaces; all are put back in the end."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore(*leave: object) -> None:
        for number, handler in before.items():
            if handler not in (None, *leave):
                signal.signal(number, handler)

    try:
        yield lambda: restore(signal.SIG_DFL)  # Ray's own handler is better than none
    finally:
        restore()


@contextlib.contextmanager
def _stops_unwrapped() -> Iterator[None]:
    """Raise what a handler of a signal raised while Ray waited: of all but Ctrl-C Ray makes a SystemError."""
    try:
        yield
    except SystemError as error:
        if error.__cause__ is None or isinstance(error.__cause__, Exception):
            raise
        raise error.__cause__ from None
