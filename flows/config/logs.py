"""Log lines of mcvrp: plain text on the terminal, levels on the page of a Prefect run, secrets in neither.

A module logs to the logger of its name, such as "mcvrp.tasks.label.driver". An import sets nothing up:
a program that uses mcvrp as a library decides itself what becomes of the lines.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from mcvrp.flows.config import settings
from mcvrp.model.errors import brief, sentence, without_logins

ROOT = "mcvrp"  # the logger above all of ours
_HOOK = re.compile(r"(Running hook|Hook) '")  # Prefect at work: two lines about each, nothing of the run


def redact(text: str) -> str:
    """Return ``text`` without passwords in addresses, secrets of the environment, keys of stores."""
    for secret in settings.secrets():
        text = text.replace(secret, "…")
    return without_logins(text)


def one_line(error: BaseException) -> str:
    """Return the message of ``error`` on a single line of at most 300 characters."""
    return brief(redact(sentence(error)))  # in this order: of half a secret nobody would know that it is one


class _Redacting(logging.Formatter):
    """The lines of another formatter without secrets, tracebacks included."""

    def __init__(self, inner: logging.Formatter | None = None) -> None:
        super().__init__()
        self._inner = inner or logging.Formatter()

    def format(self, record: logging.LogRecord) -> str:
        return redact(self._inner.format(record))


class _Terminal(logging.Handler):
    """Lines on stderr, as it is when they are written: a progress bar redirects it while it is shown."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(f"{self.format(record)}\n")
            sys.stderr.flush()
        except Exception:
            self.handleError(record)


@contextmanager
def terminal() -> Iterator[None]:
    """Write the lines of this process to stderr, from INFO on; within another `terminal`, nothing changes."""
    logger = logging.getLogger(ROOT)
    if any(isinstance(handler, _Terminal) for handler in logger.handlers):
        yield
        return
    handler, before = _Terminal(), (logger.level, logger.propagate)
    handler.setFormatter(_Redacting())
    logger.addHandler(handler)
    # Prefect's handler of the root logger would write each line a second time.
    logger.propagate = False
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        level, logger.propagate = before
        logger.setLevel(level)


def log_to_prefect() -> None:
    """Send our lines, from INFO on, to the page of a Prefect run; no line there has a secret.

    Which loggers Prefect listens to is decided before its import: `settings.prepare`.
    """
    logger = logging.getLogger(ROOT)
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)
    for handler in logging.getLogger("prefect.extra").handlers:  # the one for ours and for Prefect's own
        if not isinstance(handler.formatter, _Redacting):
            handler.setFormatter(_Redacting(handler.formatter))
            handler.addFilter(lambda record: not _HOOK.match(str(record.msg)))
