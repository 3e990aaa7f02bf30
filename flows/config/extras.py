"""Optional dependencies: the extra `pipeline` is needed by all commands that do not merely route a day."""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib.util import find_spec

from mcvrp.flows.config.logs import lines, terminal
from mcvrp.model.errors import McvrpError

logger = logging.getLogger(__name__)

_PIPELINE = ("prefect", "ray", "deepspeed", "asyncpg", "tensorboard")


def has_pipeline() -> bool:
    """Return whether the extra `pipeline` is installed."""
    return not _missing()


def require_pipeline(command: str) -> None:
    """Raise McvrpError if the extra `pipeline`, which ``command`` ("mcvrp run") needs, is not installed."""
    if missing := _missing():
        raise McvrpError(
            f"{command} needs the extra 'pipeline', but {missing[0]} is not installed: run "
            "pip install '.[pipeline]' in the source folder of mcvrp"
        )


@terminal()
def run_program(command: str, work: Callable[[], None]) -> int:
    """Run ``work`` of ``command`` ("python -m …") and return the exit code; errors are a line on stderr."""
    try:
        require_pipeline(command)
        work()
    except McvrpError as error:
        for line in lines(error):
            logger.error("mcvrp: %s", line)
        return error.exit_code
    return 0


def _missing() -> list[str]:
    return [name for name in _PIPELINE if not _is_installed(name)]


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ImportError:
        return False
