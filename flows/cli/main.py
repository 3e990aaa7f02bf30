"""The `mcvrp` command: parses the command line, and reports every error in one line.

Heavy modules are not imported here: `mcvrp --help` is fast.
"""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import os
import re
import sys
import time
import traceback
from collections.abc import Sequence
from typing import NoReturn

import typer

from mcvrp.flows.cli import app, city, city_edit, commands, models, upkeep  # noqa: F401, they declare the commands
from mcvrp.flows.cli.interrupt import CONTINUE, INTERRUPTED, stopping
from mcvrp.flows.config import settings
from mcvrp.flows.config.logs import lines, one_line, redact, terminal
from mcvrp.model.errors import McvrpError, brief, shown

_GARBAGE = 50_000  # new objects between two collections: imports make far more, and they stay
logger = logging.getLogger("mcvrp.flows.cli.main")  # also under python -m, where __name__ is "__main__"


def run(arguments: Sequence[str], began: float | None = None) -> int:
    """Run one command, which ``began`` by `time.monotonic`, and return its exit code (see `McvrpError`)."""
    app.began.set(time.monotonic() if began is None else began)
    verbose = "--verbose" in arguments
    with terminal():
        try:
            return _run(arguments, verbose)
        except BaseException as error:
            return _ended(error, verbose)


def parse(arguments: Sequence[str]) -> app.Call | int:
    """Return the command of ``arguments``, or an exit code if Typer has answered, such as --help.

    McvrpError if Typer refuses them.
    """
    try:
        call: app.Call | int = app.app(args=list(arguments), prog_name="mcvrp", standalone_mode=False)
    except typer.TyperException as error:
        raise McvrpError(brief(" ".join(error.format_message().split()))) from None
    return call


def _run(arguments: Sequence[str], verbose: bool) -> int:
    if odd := [text for text in arguments if re.search("[\ud800-\udfff]", text)]:
        raise McvrpError(f"{shown(odd[0])} is not UTF-8")  # no output accepts its surrogates
    alone = " ".join(arguments) in ("", *(group.name for group in app.app.registered_groups))
    call = parse([*arguments, "--help"] if alone else arguments)
    if isinstance(call, int):  # Typer has answered, such as --help
        return McvrpError.exit_code if alone else call
    settings.prepare(verbose=verbose)
    outcome = call.body()
    text = outcome.text.rstrip()
    if call.common.json:
        text = json.dumps(outcome.document, indent=2, ensure_ascii=False)
    try:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    except BrokenPipeError:  # `mcvrp plan | head`
        sys.stdout = None  # so that nothing is flushed to it
    for line in redact(outcome.lacks).splitlines():
        logger.error("mcvrp: %s", line)
    return outcome.code


def _ended(error: BaseException, verbose: bool) -> int:
    if isinstance(error, SystemExit) and not error.code:  # of Typer's completion
        return 0
    # On SIGTERM Ray raises SystemExit, Prefect its TerminationSignal.
    if isinstance(error, KeyboardInterrupt | SystemExit) or type(error).__name__ == "TerminationSignal":
        logger.warning(CONTINUE)
        return INTERRUPTED
    if verbose:
        logger.error("".join(traceback.format_exception(error)).rstrip())
    if isinstance(error, McvrpError):
        for line in lines(error):
            logger.error("mcvrp: %s", line)
        return error.exit_code
    hint = "" if verbose else " (--verbose prints the traceback)"
    logger.error("mcvrp: unexpected %s: %s%s", type(error).__name__, one_line(error), hint)
    return McvrpError.exit_code


def main() -> NoReturn:
    """Run the command line of this process: the console entry point."""
    gc.set_threshold(_GARBAGE)
    # Prefect's handler of logs, once its server is gone, would write half a line before our last one.
    logging.raiseExceptions = "--verbose" in sys.argv
    with stopping():
        # Python has started before, in at least this time of a processor.
        code = run(sys.argv[1:], time.monotonic() - time.process_time())
    # Everything is written, and no child is left. Exit handlers of libraries take seconds, and now and then
    # one of their threads ends in a segmentation fault while the interpreter is finalized.
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError):  # closed by its reader
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
