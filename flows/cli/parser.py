"""Options of the `mcvrp` command. Nothing heavy is imported here: `mcvrp --help` answers at once."""

from __future__ import annotations

import argparse
import re
from functools import partial
from typing import Any, NoReturn

from mcvrp.flows.config.stages import STAGES
from mcvrp.model.errors import McvrpError, brief, shown

_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_MESSAGE = 250  # characters of what argparse says
# Options that nothing stands behind: refused by name, as "unrecognized" would not say that no option does it.
_TIME_WINDOWS = ("--time-window", "--time-windows", "--service-time", "--shift")
# What else people call the limits.
_FLEET, _LONGEST_ROUTE = ("--vehicles", "--max-vehicles", "--max-routes"), ("--max-distance", "--max-length")
_UNROUNDED = "costs of a .vrp with EUC_2D as they are (default: rounded, or as a .sol beside it has them)"


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence, like all others, and that takes nothing for what it is not.

    No option means anything when it is empty, and Python would read "2_0" and the digits of all scripts.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for kind, read in ((None, _text), (int, _whole), (float, _number)):
            self.register("type", kind, read)

    def add_subparsers(self, **options: Any) -> argparse._SubParsersAction[Any]:
        commands = super().add_subparsers(**options)
        commands.type = str  # all that is behind the command passes here, too
        return commands

    def error(self, message: str) -> NoReturn:
        raise McvrpError(f"{brief(message, _MESSAGE)}; see {self.prog} --help")


def _text(given: str) -> str:
    if not given.strip():
        raise argparse.ArgumentTypeError("it is empty: say what, or leave it out")
    return given


def _whole(given: str) -> int:
    if not _WHOLE.fullmatch(given):
        raise argparse.ArgumentTypeError(f"{shown(given)} is no whole number such as 20")
    return int(given)


def _number(given: str) -> float:
    if not _NUMBER.fullmatch(given):
        raise argparse.ArgumentTypeError(f"{shown(given)} is no number such as 2.5")
    return float(given)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = _Parser(prog="mcvrp", description="From a city to a model that routes any day's orders on it.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add = partial(_command, commands, parents=[_common()])
    for stage in STAGES.values():
        if stage.command and stage.name != "city":
            add(stage.command, stage.text)
    commands.choices["train"].add_argument("--phase", help="train this phase alone, such as II-A")
    commands.choices["benchmark"].add_argument(
        "instances",
        nargs="?",
        metavar="FOLDER",
        help="of instances of CVRPLIB (.vrp) and best known solutions (.sol), in place of held-out ones",
    )
    add("plan", "what a run would cost, before it starts")
    _add_city(commands)
    inspect = add("inspect", "describe what is in the store")
    inspect.add_argument(
        "path",
        nargs="?",
        help="the name of anything, MODEL@VERSION, or a file or folder (default: all)",
    )
    inspect.add_argument(
        "--draw", nargs=2, type=int, metavar=("N", "I"), help="draw instance (n, i) of the dataset"
    )
    inspect.add_argument("--out", metavar="FILE.png", help="where to draw it")
    verify = add("verify", "prove a dataset from its bytes")
    verify.add_argument("dataset", nargs="?", help="its name (default: the preset's)")
    gc = add("gc", "remove what nobody needs any more (shows it; --delete does it)")
    gc.add_argument("--delete", action="store_true", help="do it: without, nothing is removed")
    models = add("models", "list the models or the versions of one; export one, import one")
    models.add_argument(
        "asked",
        nargs="*",
        metavar="MODEL | export MODEL[@VERSION] FOLDER | import FOLDER",
        help="a model's name (default: all); export writes a version with its city into a folder that needs "
        "nothing else (default: the champion), import takes such a folder into the store",
    )
    models.add_argument("--name", help="of the model that is imported (default: the one that it had)")
    promote = add("promote", "make a version of a model its champion")
    promote.add_argument("model", help="its name")
    promote.add_argument("version", help="a number, or challenger")
    rollback = add("rollback", "make the champion before champion again")
    rollback.add_argument("model", nargs="?", help="its name (default: the preset's)")
    for command in (promote, rollback):
        command.add_argument("--why", metavar="TEXT", help="for those who come after")
    _add_solve_options(add("solve", "route a day's orders"))
    ui = add("ui", "the Prefect UI: start, schedule and watch every stage; Ctrl-C ends it")
    ui.add_argument("--port", type=int, default=4200, help="of the UI, on this machine (default: 4200)")
    ui.add_argument(
        "--database",
        metavar="URL",
        help="of the server: postgresql://user:password@host/name (default: as Prefect is set, else SQLite)",
    )
    ui.add_argument("--notify", metavar="URL", help="a webhook to call when a run fails")
    return top


def _command(
    commands: argparse._SubParsersAction[_Parser], name: str, text: str, parents: list[_Parser]
) -> _Parser:
    return commands.add_parser(name, help=text, description=text, parents=parents)


def _common() -> _Parser:
    common = _Parser(add_help=False)
    common.add_argument(
        "--preset",
        default="laptop",
        metavar="NAME|FILE.toml",
        help="smoke, laptop, evening, gpu, paper or a file of yours (default: laptop)",
    )
    common.add_argument(
        "--store",
        metavar="URI",
        help="where everything is kept: a folder or s3://bucket/prefix (default: $MCVRP_STORE, else ./store)",
    )
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
    return common


def _add_city(commands: argparse._SubParsersAction[_Parser]) -> None:
    city = commands.add_parser("city", help="create a city, import yours, extend it", description="Cities.")
    actions = city.add_subparsers(dest="action", required=True, metavar="create|import|extend")
    add = partial(_command, actions, parents=[_common()])
    add("create", STAGES["city"].text)
    read = add("import", "make a city of your addresses: CSV, Excel, Parquet, or a .vrp of CVRPLIB")
    read.add_argument("--name", help="name of the city (default: the file's)")
    read.add_argument("--depot", metavar="ID", help="id of the depot, unless a column depot marks it with 1")
    read.add_argument("--unit", help="what a cost of 1 means (default: m); of lat, lon m, km or mi")
    for quantity, what in (("demand", "an order"), ("capacity", "a vehicle")):
        text = f"smallest and largest {quantity} of {what} here (default: the paper's)"
        read.add_argument(f"--{quantity}", nargs=2, type=int, metavar=("LO", "HI"), help=text)
    text = "past orders with columns demand, capacity or both, to take the ranges from"
    read.add_argument("--history", metavar="FILE", help=text)
    read.add_argument("--unrounded", action="store_const", const=True, help=_UNROUNDED)
    more = add("extend", "add addresses to a city: what was made for it stays valid")
    more.add_argument("city", help="name of the city")
    more.add_argument("--name", help="name of the new city (default: the next number behind the old name)")
    for command in (read, more):
        command.add_argument("file", help="the addresses; store:PATH where they lie in the store")
        command.add_argument("--matrix", metavar="FILE", help="travel costs: .npy or a table from, to, cost")
        command.add_argument("--spare", type=int, metavar="K", help="output classes for addresses to come")


def _add_solve_options(command: argparse.ArgumentParser) -> None:
    """Give ``command`` what `mcvrp solve` is asked; what is not given is None."""
    command.add_argument(
        "orders",
        metavar="ORDERS",
        help="CSV, Excel or Parquet with the columns customer (or id) and demand, or a .vrp of CVRPLIB: "
        "a file, an s3:// address, or one in the store as store:PATH",
    )
    command.add_argument(
        "--capacity",
        type=int,
        metavar="C",
        help="what a vehicle holds (default: the column 'capacity', or what all of the city's hold)",
    )
    command.add_argument("--city", metavar="NAME", help="of the city in the store (default: the preset's)")
    command.add_argument(
        "--model",
        metavar="NAME|FOLDER",
        help="of the model (default: the preset's train.model), or a folder of mcvrp models export, whose "
        "city is the default then",
    )
    command.add_argument(
        "--version",
        metavar="N|champion|latest",
        help="of the model (default: the champion, without one the latest)",
    )
    command.add_argument(
        "--samples",
        type=int,
        metavar="S",
        help="answers of the model (default: 100); 0: a search without a model, as for a .vrp unless --model",
    )
    command.add_argument(
        "--time-limit",
        type=float,
        metavar="SECONDS",
        help="for decoding and polishing; HGS gets as many again (default: 10)",
    )
    command.add_argument(
        "--polish",
        metavar="none|local-search|SOLVER",
        help="what improves the samples; a solver that goes on from them, or (default) local-search",
    )
    command.add_argument(
        "--hgs",
        action=argparse.BooleanOptionalAction,
        help="solve by HGS in equal time too, to compare (default: yes)",
    )
    command.add_argument(
        "--fleet",
        type=int,
        metavar="K",
        help="most vehicles (default: any number); --polish hgs or pyvrp keeps it",
    )
    command.add_argument(
        "--longest-route",
        type=float,
        metavar="LENGTH",
        help="most that a route may cost, in the city's unit (default: any); --polish hgs or pyvrp keeps it",
    )
    command.add_argument(*_FLEET, type=int, dest="fleet", help=argparse.SUPPRESS)
    command.add_argument(*_LONGEST_ROUTE, type=float, dest="longest_route", help=argparse.SUPPRESS)
    command.add_argument("--seed", type=int, metavar="N", help="names everything random (default: 0)")
    command.add_argument(
        "--start", metavar="ROUTES", help="earlier routes to begin with: columns route, stop, customer"
    )
    command.add_argument("--unrounded", action="store_true", help=_UNROUNDED)
    command.add_argument(
        "--out", metavar="FOLDER", help="where the routes go (default: ./routes/NAME OF THE ORDERS-HASH)"
    )
    command.add_argument(
        "--overwrite", action="store_true", help="replace the routes of other orders in that folder"
    )
    command.add_argument(*_TIME_WINDOWS, dest="time_window", nargs="?", action=_Named, help=argparse.SUPPRESS)


class _Named(argparse.Action):
    """Keeps the name of the option that was given."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        setattr(namespace, self.dest, option_string)
