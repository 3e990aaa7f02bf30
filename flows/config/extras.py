"""Extras of the installation: whether there is what a command needs beyond the base, which routes a day."""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib.util import find_spec

from mcvrp.flows.config.logs import one_line, terminal
from mcvrp.model.errors import McvrpError

logger = logging.getLogger(__name__)

_PIPELINE = ("prefect", "ray", "deepspeed", "asyncpg", "tensorboard")


def has_pipeline() -> bool:
    """Return whether the extra `pipeline` is installed."""
    return not _missing()


def require_pipeline(command: str) -> None:
    """Raise McvrpError if the extra `pipeline` is not installed, which ``command`` ("mcvrp run") needs."""
    if missing := _missing():
        raise McvrpError(
            f"{command} needs the extra 'pipeline', of which {missing[0]} is not installed: "
            "pip install '.[pipeline]' where the source of mcvrp is"
        )


def run_program(command: str, work: Callable[[], None]) -> int:
    """Do ``work`` of ``command`` ("python -m …"), which needs the extra `pipeline`; return the exit code.

    What is wrong is said on stderr in a line.
    """
    with terminal():
        try:
            require_pipeline(command)
            work()
        except McvrpError as error:
            logger.error("mcvrp: %s", one_line(error))
            return error.exit_code
    return 0


def _missing() -> list[str]:
    return [name for name in _PIPELINE if not _is_there(name)]


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ImportError:
        return False
