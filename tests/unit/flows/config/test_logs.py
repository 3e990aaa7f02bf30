"""Tests of logging: plain lines on the terminal without secrets, no handlers set up by an import."""

from __future__ import annotations

import logging
import os
import threading

import pytest

from mcvrp.flows.config import settings
from mcvrp.flows.config.logs import terminal
from mcvrp.tasks.support.progress import INTERRUPTED

logger = logging.getLogger("mcvrp.tasks.some.module")


def test_the_terminal_gets_the_text_alone(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger("mcvrp")
    before = (list(root.handlers), root.level, root.propagate)
    with terminal():
        logger.info("%d done", 3)
        logger.debug("a detail")
        logger.warning(INTERRUPTED)  # for which the command has a line
        thread = threading.Thread(target=logger.warning, args=("a worker was lost",))
        thread.start()
        thread.join()
    logger.warning("after it")
    assert capsys.readouterr() == ("", "3 done\na worker was lost\n")
    assert (list(root.handlers), root.level, root.propagate) == before


def test_the_terminal_gets_no_secret(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_PASSWORD", "hush-hush")
    with terminal():
        logger.info("hush-hush %s", ValueError("hush-hush"))
        try:
            raise RuntimeError("s3://me:word@host and hush-hush")
        except RuntimeError:
            logger.exception("it failed")
    err = capsys.readouterr().err
    assert err.startswith("… …\nit failed\nTraceback")
    assert "hush" not in err
    assert "word" not in err


@pytest.mark.parametrize(
    ("variable", "expected"),
    [(None, "mcvrp"), ("", "mcvrp"), ("mine", "mine,mcvrp"), ("mcvrp,mine", "mcvrp,mine")],
)
def test_prefect_logs_our_loggers_and_those_of_the_user(
    variable: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "PREFECT_LOGGING_EXTRA_LOGGERS"
    monkeypatch.setenv(name, variable) if variable is not None else monkeypatch.delenv(name, raising=False)
    settings.prepare(verbose=False)
    assert os.environ[name] == expected
    settings.prepare(verbose=False)
    assert os.environ[name] == expected
