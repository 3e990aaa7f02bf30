"""The `mcvrp` command: reads the command line, catches every error once, says it in a line.

Nothing heavy is imported here: `mcvrp --help` answers at once.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import time
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

from mcvrp.flows.cli.options import add_solve_options
from mcvrp.flows.config import settings
from mcvrp.flows.config.logs import one_line, redact, terminal
from mcvrp.flows.server.interrupt import CONTINUE, INTERRUPTED, stopping_in_time
from mcvrp.model.errors import McvrpError

logger = logging.getLogger("mcvrp.flows.cli.main")  # also under python -m, where __name__ is "__main__"

BAD_INPUT = 2

# command, what it does
_STAGES = {
    "run": "the whole pipeline: city, labels, training, benchmark",
    "plan": "what a run would cost, before it starts",
    "label": "solve what is missing of the dataset",
    "train": "train, or continue where training stopped",
    "am": "train the attention models of the benchmark",
    "benchmark": "fill in the tables",
    "nightly": "take fresh routes, tune the champion on them, compare, promote or say why not",
    "improve": "let the champion beat its labels, tune it on them, compare, promote or say why not",
}


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence, like all others."""

    def error(self, message: str) -> NoReturn:
        raise McvrpError(f"{message}; see {self.prog} --help")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    common = _Parser(add_help=False)
    common.add_argument(
        "--preset",
        default="laptop",
        metavar="NAME|FILE.toml",
        help="smoke, laptop, gpu, paper or a file of yours (default: laptop)",
    )
    common.add_argument(
        "--store", metavar="URI", help="where everything is kept: a folder or s3://bucket/prefix "
        "(default: $MCVRP_STORE, else ./store)",
    )  # fmt: skip
    common.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="overrides",
        help="change a field of the preset: label.count=500 (repeatable)",
    )
    common.add_argument("--json", action="store_true", help="the result as one JSON document on stdout")
    common.add_argument("--verbose", action="store_true", help="what the libraries say, and tracebacks")

    top = _Parser(prog="mcvrp", description="From a city to a model that routes any day's orders on it.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text in _STAGES.items():
        command = commands.add_parser(name, help=text, description=text, parents=[common])
        if name == "train":
            command.add_argument("--phase", help="train this phase alone, such as II-A")
    _add_city(commands, common)
    inspect = commands.add_parser("inspect", help="describe what is in the store", parents=[common])
    inspect.add_argument(
        "path",
        nargs="?",
        default="",
        help="the name of anything, MODEL@VERSION, or a file or folder (default: all)",
    )
    inspect.add_argument(
        "--draw", nargs=2, type=int, metavar=("N", "I"), help="draw instance (n, i) of the dataset"
    )
    inspect.add_argument("--out", metavar="FILE.png", help="where to draw it")
    text = "prove a dataset from its bytes"
    verify = commands.add_parser("verify", help=text, description=text, parents=[common])
    verify.add_argument("dataset", nargs="?", help="its name (default: the preset's)")
    _housekeeping(commands, common)
    text = "route a day's orders"
    add_solve_options(commands.add_parser("solve", help=text, description=text, parents=[common]))
    text = "the Prefect UI: start, schedule and watch every stage; Ctrl-C ends it"
    ui = commands.add_parser("ui", help=text, description=text, parents=[common])
    ui.add_argument("--port", type=int, default=4200, help="of the UI, on this machine (default: 4200)")
    ui.add_argument(
        "--database",
        metavar="URL",
        help="of the server: postgresql://user:password@host/name (default: as Prefect is set, else SQLite)",
    )
    ui.add_argument("--notify", metavar="URL", help="a webhook to call when a run fails")
    return top


def _add_city(commands: argparse._SubParsersAction[_Parser], common: _Parser) -> None:
    city = commands.add_parser("city", help="create a city, import yours, extend it", description="Cities.")
    actions = city.add_subparsers(dest="action", required=True, metavar="create|import|extend")
    actions.add_parser("create", help="make the preset's synthetic city", parents=[common])
    text = "make a city of your addresses: CSV or Parquet with id and lat, lon or x, y"
    read = actions.add_parser("import", help=text, description=text, parents=[common])
    read.add_argument("--name", help="name of the city (default: the file's)")
    read.add_argument("--depot", metavar="ID", help="id of the depot, unless a column depot marks it with 1")
    read.add_argument("--unit", help="what a cost of 1 means (default: m); of lat, lon m, km or mi")
    for quantity, what in (("demand", "an order"), ("capacity", "a vehicle")):
        text = f"smallest and largest {quantity} of {what} here (default: the paper's)"
        read.add_argument(f"--{quantity}", nargs=2, type=int, metavar=("LO", "HI"), help=text)
    text = "past orders with columns demand, capacity or both, to take the ranges from"
    read.add_argument("--history", metavar="FILE", help=text)
    text = "add addresses to a city: what was made for it stays valid"
    more = actions.add_parser("extend", help=text, description=text, parents=[common])
    more.add_argument("city", help="name of the city")
    more.add_argument("--name", help="name of the new city (default: the next number behind the old name)")
    for command in (read, more):
        command.add_argument("file", help="the addresses; store:PATH where they lie in the store")
        command.add_argument("--matrix", metavar="FILE", help="travel costs: .npy or a table from, to, cost")
        command.add_argument("--spare", type=int, metavar="K", help="output classes for addresses to come")


def _housekeeping(commands: Any, common: argparse.ArgumentParser) -> None:
    text = "remove what nobody needs any more (shows it; --delete does it)"
    gc = commands.add_parser("gc", help=text, description=text, parents=[common])
    gc.add_argument("--delete", action="store_true", help="do it: without, nothing is removed")
    text = "list the models, or the versions of one"
    models = commands.add_parser("models", help=text, description=text, parents=[common])
    models.add_argument("model", nargs="?", help="its name (default: all)")
    text = "make a version of a model its champion"
    promote = commands.add_parser("promote", help=text, description=text, parents=[common])
    promote.add_argument("model", help="its name")
    promote.add_argument("version", help="a number, or challenger")
    text = "make the champion before champion again"
    rollback = commands.add_parser("rollback", help=text, description=text, parents=[common])
    rollback.add_argument("model", nargs="?", help="its name (default: the preset's)")
    for command in (promote, rollback):
        command.add_argument("--why", default="", metavar="TEXT", help="for those who come after")


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code: 0 done, 1 in part, 2 bad input, 130 interrupted."""
    with terminal():
        return _run(arguments)


def _run(arguments: Sequence[str]) -> int:
    verbose, began = "--verbose" in arguments, time.monotonic()
    try:
        options = parser().parse_args(arguments, argparse.Namespace(began=began))
        settings.prepare(verbose=verbose)
        from mcvrp.flows.cli.commands import execute

        outcome = execute(options)
        document = json.dumps(outcome.document, indent=2, ensure_ascii=False) if options.json else None
        sys.stdout.write(f"{document or outcome.text.rstrip()}\n")
        sys.stdout.flush()
        return outcome.code
    except McvrpError as error:
        if verbose:
            logger.error("".join(traceback.format_exception(error)).rstrip())
        logger.error("mcvrp: %s", one_line(error))
        return error.exit_code
    except KeyboardInterrupt:
        logger.warning(CONTINUE)
        return INTERRUPTED
    except SystemExit as leaving:  # argparse after --help; Ray on SIGTERM
        if not leaving.code:
            return 0
        logger.warning(CONTINUE)
        return INTERRUPTED
    except BrokenPipeError:  # `mcvrp plan | head`
        sys.stdout = None  # nothing is left to flush
        return 0
    except BaseException as error:
        if type(error).__name__ == "TerminationSignal":  # Prefect's word for SIGTERM
            logger.warning(CONTINUE)
            return INTERRUPTED
        return _unexpected(error, verbose)


def _unexpected(error: BaseException, verbose: bool) -> int:
    if verbose:
        logger.error("".join(traceback.format_exception(error)).rstrip())
        logger.error("mcvrp: %s: %s", type(error).__name__, one_line(error))
        return BAD_INPUT
    path = settings.log_file()
    path.write_text(redact("".join(traceback.format_exception(error))), encoding="utf-8")
    kind, text = type(error).__name__, one_line(error)[:300]
    logger.error("mcvrp: unexpected %s: %s (the whole story: %s)", kind, text, path)
    return BAD_INPUT


def main() -> int:
    """Run the command line of this process; the console entry."""
    with terminal(), stopping_in_time():
        code = run(sys.argv[1:])
    if code == INTERRUPTED:  # libraries would take their time to say goodbye
        os._exit(code)
    return code


if __name__ == "__main__":
    sys.exit(main())
