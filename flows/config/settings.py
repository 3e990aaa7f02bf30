"""Environment variables of mcvrp, and those that it sets for its libraries."""

from __future__ import annotations

import os
import re
from pathlib import Path

DEFAULT_STORE = "./store"

# No telemetry and no pickles, whatever the defaults of the libraries are.
_ALWAYS = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    # Results are in our store; Prefect would persist them as pickles.
    "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "false",
    "PREFECT_RESULTS_DEFAULT_SERIALIZER": "json",
    "RAY_USAGE_STATS_ENABLED": "0",
    # No child process imports a json.py or model.py of the folder in which the user works.
    "PYTHONSAFEPATH": "1",
    # By default, a driver waits 300 s + 120 s for the tasks of a host that lost its network connection.
    "RAY_grpc_client_keepalive_time_ms": "30000",
    "RAY_grpc_client_keepalive_timeout_ms": "30000",
    # Seconds, Prefect's minimum; `server.deployments` relies on it.
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
    # Lines that are logged outside of a run have no page in the UI.
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
}
_LOCAL = ("127.0.0.1", "localhost")  # addresses of our own servers, which no proxy reaches
_LOGGERS = "PREFECT_LOGGING_EXTRA_LOGGERS"  # shown in the logs of a run besides Prefect's own
# No log output of libraries on the terminal; Prefect's logs still go to its server.
_QUIET = {
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_HANDLERS_DEBUG_LEVEL": "CRITICAL",
    "PYTHONWARNINGS": "ignore",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "TORCH_CPP_LOG_LEVEL": "ERROR",
}


def store_uri(option: str | None) -> str:
    """Return the address of the store: ``option`` (--store), otherwise $MCVRP_STORE, otherwise ./store."""
    return option or os.environ.get("MCVRP_STORE") or DEFAULT_STORE


def cache_dir() -> Path:
    """Return the folder for local copies of labels: $MCVRP_CACHE, otherwise the user's cache folder."""
    if folder := os.environ.get("MCVRP_CACHE"):
        return Path(folder).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache").absolute() / "mcvrp"


def prepare(*, verbose: bool) -> None:
    """Set the variables that libraries read when they are imported, in this process and its children.

    Variables that the user has set are kept.
    """
    for name, value in (_ALWAYS if verbose else _ALWAYS | _QUIET).items():
        os.environ.setdefault(name, value)
    os.environ[_LOGGERS] = _extended(os.environ.get(_LOGGERS, ""), "mcvrp")
    lower, upper = os.environ.get("no_proxy", ""), os.environ.get("NO_PROXY", "")
    os.environ["no_proxy"] = _extended(lower or upper, *_LOCAL)  # libraries that find both read one of them
    os.environ["NO_PROXY"] = _extended(upper or lower, *_LOCAL)


def _extended(value: str, *more: str) -> str:
    """Return a comma-separated list with ``more``."""
    return ",".join(dict.fromkeys([*(each for each in value.split(",") if each.strip()), *more]))


_SECRET = re.compile(r"SECRET|TOKEN|PASSW|AUTH_STRING|API_KEY|ACCESS_KEY|CONNECTION_URL|CREDENTIALS")
_SHORTEST_SECRET = 6  # characters; shorter values would match any text


def secrets() -> list[str]:
    """Return the secrets of the environment, the longest first."""
    values = {value for name, value in os.environ.items() if _SECRET.search(name.upper())}
    # the password of user:password may occur alone
    logins = (value for name, value in os.environ.items() if "AUTH_STRING" in name)
    values |= {login.partition(":")[2] for login in logins}
    return sorted((value for value in values if len(value) >= _SHORTEST_SECRET), key=len, reverse=True)


def ray_address() -> str | None:
    """Return the address of the Ray cluster; None starts Ray on this machine."""
    return os.environ.get("RAY_ADDRESS") or None
