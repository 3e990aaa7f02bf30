"""Logging of mcvrp: plain lines on the terminal, levels in the logs of a Prefect run, no secrets in either.

A module logs to the logger of its name, such as "mcvrp.tasks.label.driver". Importing mcvrp
configures nothing: a program that uses it as a library configures logging itself.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from mcvrp.flows.config import settings
from mcvrp.model.errors import McvrpError, brief, sentence, without_logins
from mcvrp.tasks.support.progress import INTERRUPTED

ROOT = "mcvrp"  # the parent of all our loggers


def redact(text: str) -> str:
    """Return ``text`` without passwords in URLs, and secrets of the environment."""
    for secret in settings.secrets():
        text = text.replace(secret, "…")
    return without_logins(text)


def one_line(error: BaseException) -> str:
    """Return the message of ``error`` on a single line of at most 300 characters."""
    return brief(redact(sentence(error)))  # before it is shortened: half a secret would not be recognized


def lines(error: BaseException) -> list[str]:
    """Return the message of ``error`` in lines as of `one_line`: several of fields and rows."""
    if isinstance(error, McvrpError) and error.sentences:
        return [brief(redact(text)) for text in error.sentences]
    return [one_line(error)]


class _Redacting(logging.Formatter):
    """Formatter that removes secrets from the lines of another one, tracebacks included."""

    def __init__(self, inner: logging.Formatter | None = None) -> None:
        super().__init__()
        self._inner = inner or logging.Formatter()

    def format(self, record: logging.LogRecord) -> str:
        return redact(self._inner.format(record))


class _Terminal(logging.Handler):
    """Handler that writes to the current `sys.stderr`, which a progress bar redirects while it is shown."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(f"{self.format(record)}\n")
            sys.stderr.flush()
        except Exception:
            self.handleError(record)


@contextmanager
def terminal() -> Iterator[None]:
    """Log to stderr at level INFO."""
    logger = logging.getLogger(ROOT)
    handler, before = _Terminal(), (logger.level, logger.propagate)
    handler.setFormatter(_Redacting())
    handler.addFilter(lambda record: record.msg != INTERRUPTED)  # the command ends with a line of its own
    logger.addHandler(handler)
    # Prefect's handler of the root logger would write every line twice.
    logger.propagate = False
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        level, logger.propagate = before
        logger.setLevel(level)


def mute(error: Exception) -> None:
    """Keep Prefect's engine from logging the traceback of ``error``, which the state of its run reports."""

    def other(record: logging.LogRecord) -> bool:
        return not (record.exc_info and record.exc_info[1] is error)

    for name in ("prefect.flow_runs", "prefect.engine"):
        logging.getLogger(name).addFilter(other)


def log_to_prefect() -> None:
    """Send our lines at level INFO to the logs of a Prefect run, without secrets.

    Prefect reads the names of our loggers when it is imported: see `settings.prepare`.
    """
    logger = logging.getLogger(ROOT)
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)
    for handler in logging.getLogger("prefect.extra").handlers:  # of our loggers and Prefect's own
        if not isinstance(handler.formatter, _Redacting):
            handler.setFormatter(_Redacting(handler.formatter))
