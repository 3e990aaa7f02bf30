"""Environment variables, read and set: the only module of flows that touches them."""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from mcvrp.model.errors import McvrpError, shown
from mcvrp.storage.store.credentials import keys_in_use
from mcvrp.tasks.support.scratch import sweep_scratch

DEFAULT_STORE = "./store"
KEEP_RUNS_DAYS = 90  # Prefect's own default, where it deletes runs at all

# Nobody phones home from here, nothing is pickled, whatever the defaults of the libraries are.
_ALWAYS = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    # Results are in our store; Prefect would keep them as pickles.
    "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "false",
    "PREFECT_RESULTS_DEFAULT_SERIALIZER": "json",
    "RAY_USAGE_STATS_ENABLED": "0",
    # Ray's own 300 s and 120 s are how long a driver waits for what a host was doing whose link has gone.
    "RAY_grpc_client_keepalive_time_ms": "30000",
    "RAY_grpc_client_keepalive_timeout_ms": "30000",
    # Seconds, the shortest that Prefect takes: `server.dead_runs` counts on it.
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
    # What we log outside a run has no page there.
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
}
_LOGGERS = "PREFECT_LOGGING_EXTRA_LOGGERS"  # whose lines the page of a run shows besides Prefect's own
# Library chatter stays out of the terminal; Prefect's logs still go to its server.
_QUIET = {
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_HANDLERS_DEBUG_LEVEL": "CRITICAL",
    "PYTHONWARNINGS": "ignore",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "TORCH_CPP_LOG_LEVEL": "ERROR",
}


def store_uri(option: str | None) -> str:
    """Return where the store is: ``option`` (--store), else $MCVRP_STORE, else ./store."""
    return option or os.environ.get("MCVRP_STORE") or DEFAULT_STORE


def cache_dir() -> Path:
    """Return the folder of this machine for what can be made again: $MCVRP_CACHE, else the user's own."""
    if folder := os.environ.get("MCVRP_CACHE"):
        return Path(folder).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache").absolute() / "mcvrp"


def prepare(*, verbose: bool) -> None:
    """Set what the libraries, here and in every child process, read when they are imported.

    What the user has set stays.
    """
    for name, value in (_ALWAYS if verbose else _ALWAYS | _QUIET).items():
        os.environ.setdefault(name, value)
    listened_to = [name for name in os.environ.get(_LOGGERS, "").split(",") if name.strip()]
    os.environ[_LOGGERS] = ",".join(dict.fromkeys([*listened_to, "mcvrp"]))


_SECRET = re.compile(r"SECRET|TOKEN|PASSW|AUTH_STRING|API_KEY|ACCESS_KEY|CONNECTION_URL|CREDENTIALS")
_SHORTEST_SECRET = 6  # characters; what is shorter is in every text


def other_stores() -> list[str]:
    """Return the stores that a form may name beside the worker's own: $MCVRP_STORES, with commas between."""
    return [store.strip() for store in os.environ.get("MCVRP_STORES", "").split(",") if store.strip()]


def worked_run(environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the id of the flow run for which a Prefect worker has started a process; None of others.

    Parameters
    ----------
    environment
        Of the process; that of this one unless given.
    """
    return environment.get("PREFECT__FLOW_RUN_ID")


def secrets() -> list[str]:
    """Return what nobody may read, the longest first: of the environment, and keys of the stores in use."""
    values = {value for name, value in os.environ.items() if _SECRET.search(name.upper())}
    # of user:password, the password may turn up alone
    logins = (value for name, value in os.environ.items() if "AUTH_STRING" in name)
    values |= {login.partition(":")[2] for login in logins} | keys_in_use()
    return sorted((value for value in values if len(value) >= _SHORTEST_SECRET), key=len, reverse=True)


def folder() -> Path:
    """Return where relative paths begin: $MCVRP_FOLDER, which `mcvrp ui` gives to its runs, else here."""
    return Path(os.environ.get("MCVRP_FOLDER") or ".").absolute()


def run_environment(api_url: str, password: str | None, store: str) -> dict[str, str]:
    """Return the environment of what `mcvrp ui` starts: runs find this Python, the server and ``store``."""
    python = Path(sys.executable).parent
    known = {"PREFECT_API_AUTH_STRING": password} if password else {}
    return child_environment(
        **known,
        PREFECT_API_URL=api_url,
        MCVRP_STORE=store,
        MCVRP_FOLDER=str(folder()),
        PYTHONSAFEPATH="1",  # a model.py or json.py in the folder of the user is not ours to import
        PATH=os.pathsep.join([str(python), os.environ.get("PATH", os.defpath)]),
    )


def child_environment(**changes: str) -> dict[str, str]:
    """Return the environment for a child process: ours with ``changes``."""
    return os.environ | changes


def retention() -> dict[str, str]:
    """Return what has a Prefect server of ours delete runs that ended $MCVRP_KEEP_RUNS_DAYS ago; 0 keeps all.

    What the user has told Prefect itself about it stays.

    Raises
    ------
    McvrpError
        If the variable is no number of days.
    """
    given = os.environ.get("MCVRP_KEEP_RUNS_DAYS") or str(KEEP_RUNS_DAYS)
    if not re.fullmatch(r"[0-9]{1,5}", given):
        raise McvrpError(
            f"MCVRP_KEEP_RUNS_DAYS = {shown(given)}: give a whole number of days, 0 to keep all runs"
        )
    if not (days := int(given)):
        return {}
    wanted = {"ENABLED": "events,flow_runs", "RETENTION_PERIOD": str(days * 24 * 3600)}
    named = {f"PREFECT_SERVER_SERVICES_DB_VACUUM_{name}": value for name, value in wanted.items()}
    return {name: value for name, value in named.items() if name not in os.environ}


def log_file() -> Path:
    """Return a new path for the log of a run that failed: in ./logs, else where temporary files go."""
    sweep_scratch()  # old ones among them
    name = f"mcvrp-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    for folder in (Path("logs"), Path(tempfile.gettempdir())):
        try:
            folder.mkdir(exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return (folder / name).resolve()
    return Path(os.devnull)


def ray_address() -> str | None:
    """Return the address of the Ray cluster to work on; None starts one on this machine."""
    return os.environ.get("RAY_ADDRESS") or None
