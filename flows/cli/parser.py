"""Options of the `mcvrp` command. Nothing heavy is imported here: `mcvrp --help` answers at once."""

from __future__ import annotations

import argparse
import datetime
import re
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from mcvrp.flows.config.stages import STAGES
from mcvrp.model.errors import McvrpError, brief, nearest, shown
from mcvrp.tasks.support.text import LENGTH_PATTERN, NUMBER_PATTERN, seconds_of

_NUMBERS: dict[type[float], tuple[str, str]] = {
    int: (r"[+-]?[0-9]{1,18}", "an integer such as 20"),
    float: (NUMBER_PATTERN, "a number such as 2.5"),
}
_MESSAGE = 250  # characters of an argparse message
# Unsupported options are rejected by name: "unrecognized" would not say that no option does it.
_TIME_WINDOWS = ("--time-window", "--time-windows")
# Other common names of the limits.
_FLEET, _LONGEST_ROUTE = ("--vehicles", "--max-vehicles", "--max-routes"), ("--max-distance", "--max-length")
_UNROUNDED = "do not round the EUC_2D costs of a .vrp (default: rounded, or as in its .sol file)"


class _Parser(argparse.ArgumentParser):
    """Argument parser with one-sentence errors and strict types.

    Empty values and abbreviated options are rejected, and so are "2_0" and non-ASCII digits, which Python's
    int() accepts.
    """

    hint = ""  # of errors (default: the help)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})
        self.register("type", None, _text)
        for kind in _NUMBERS:
            self.register("type", kind, partial(_number, kind))

    def add_subparsers(self, **options: Any) -> argparse._SubParsersAction[Any]:
        commands = super().add_subparsers(**options)
        commands.type = str  # all arguments of the subcommand pass here, too
        return commands

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:  # by the command that knows its options
            options = re.findall(r"--[a-z][a-z-]*", self.format_help())
            first = next((each for each in unknown if each.startswith("-")), "")
            suggestion = nearest(first.partition("=")[0], options, "") if first else ""
            meant = f"; {suggestion}" if suggestion.endswith("?") else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{meant}")
        return parsed, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            suggestion = nearest(str(value), list(map(str, action.choices)), "choices")
            raise argparse.ArgumentError(None, f"there is no command {shown(value)}; {suggestion}")

    def error(self, message: str) -> NoReturn:
        hint = self.hint or f"see {self.prog} --help"
        raise McvrpError(f"{brief(message, _MESSAGE)}; {hint}")


def _text(value: str) -> str:
    if not value.strip():
        raise argparse.ArgumentTypeError("the value is empty: give one, or omit the option")
    return value


def _number(kind: type[float], value: str) -> float:
    pattern, example = _NUMBERS[kind]
    if not re.fullmatch(pattern, value):
        raise argparse.ArgumentTypeError(f"{shown(value)} is not {example}")
    return kind(value)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = _Parser(
        prog="mcvrp",
        description="Train and run models that route the daily orders of a fixed set of addresses.",
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add = partial(_command, commands, parents=[_common()])
    for stage in STAGES.values():
        if stage.command and stage.name != "city":
            add(stage.command, stage.text)
    commands.choices["train"].add_argument("--phase", help="train only this phase, such as II-A")
    commands.choices["benchmark"].add_argument(
        "instances",
        nargs="?",
        metavar="FOLDER",
        help="CVRPLIB instances (.vrp) and best known solutions (.sol), instead of held-out instances",
    )
    text = "name of the city, which has to be that of the preset (default: --preset, or the only city)"
    _value(commands.choices["nightly"], "--city", "NAME", text)
    add("plan", "estimate the cost of a run", "commands:plan")
    _add_city(commands)
    _add_preset(commands)
    _add_inspect(add("inspect", "describe artifacts of the store", "inspect:inspect_or_draw"))
    text = "print what an artifact was made from, and what was made of it"
    lineage = add("lineage", text, "inspect:lineage")
    _value(lineage, "path", "ARTIFACT", "name of an artifact, MODEL@VERSION, or a path in the store")
    _value(lineage, "--openlineage", "FILE", "write the lineage as OpenLineage events, one JSON per line")
    verify = add("verify", "verify every label of a dataset", "store:verify")
    verify.add_argument("dataset", nargs="?", help="name (default: the preset's)")
    gc = add("gc", "list unused artifacts; --delete removes them", "models:clean_store")
    gc.add_argument("--delete", action="store_true", help="remove the listed artifacts (default: list only)")
    _add_models(add("models", "list, show, export or import models", "models:list_models"))
    _add_driven(commands)
    _add_store(commands)
    _add_champion(
        add("promote", "make a version the champion of its model", "models:promote"),
        add("rollback", "restore the previous champion", "models:roll_back_champion"),
    )
    solve = add("solve", "route a day's orders", "solve:solve")
    _add_day(solve)
    _add_search(solve)
    ui = add("ui", "start the Prefect server and UI; Ctrl-C stops them", "commands:ui")
    ui.add_argument("--port", type=int, default=4200, help="port of the UI (default: 4200)")
    text = "database of the server: postgresql://user:password@host/name (default: SQLite)"
    _value(ui, "--database", "URL", text)
    _value(ui, "--notify", "URL", "webhook that is called if a run fails")
    return top


def _command(
    commands: argparse._SubParsersAction[_Parser],
    name: str,
    text: str,
    function: str = "commands:of_stage",
    *,
    parents: list[_Parser],
) -> _Parser:
    """Add a command, and its function in `flows.cli`, which is imported when it is used."""
    command = commands.add_parser(name, help=text, description=text, parents=parents)
    command.set_defaults(function=function)
    return command


def _value(
    parser: _Parser, name: str, metavar: str | None, text: str, **kind: Callable[[str], object]
) -> None:
    """Add an option or argument with one value, a text unless another ``type`` is given."""
    parser.add_argument(name, metavar=metavar, help=text, **kind)  # type: ignore[arg-type]


def _common(*, inherited: bool = False) -> _Parser:
    """Return the common options; of a subcommand whose command has them, too, with ``inherited`` defaults."""
    common = _Parser(add_help=False, argument_default=argparse.SUPPRESS if inherited else None)
    text = "smoke, laptop, evening, gpu, paper or a TOML file (default: the last one used on the store, "
    text += "otherwise laptop)"
    _value(common, "--preset", "NAME|FILE.toml", text)
    text = "folder or s3://bucket/prefix (default: $MCVRP_STORE, otherwise ./store)"
    _value(common, "--store", "URI", text)
    text = "override a field of the preset, such as label.count=500; an empty value unsets it (repeatable)"
    common.add_argument("--set", action="append", metavar="KEY=VALUE", dest="overrides", help=text)
    common.add_argument("--json", action="store_true", help="print the result as one JSON document on stdout")
    text = "print only errors and the last lines of the result, such as in a cron job"
    common.add_argument("--quiet", action="store_true", help=text)
    common.add_argument("--verbose", action="store_true", help="show log output of libraries, and tracebacks")
    if not inherited:
        common.set_defaults(preset=None, overrides=[])
    return common


def _add_city(commands: argparse._SubParsersAction[_Parser]) -> None:
    text = "create, import or extend a city"
    city = commands.add_parser("city", help=text, description=f"{text.capitalize()}.")
    actions = city.add_subparsers(dest="action", required=True, metavar="create|import|extend")
    add = partial(_command, actions, parents=[_common()])
    add("create", STAGES["city"].text, "commands:create_city")
    text = "import addresses as a city: CSV, Excel, Parquet, or a CVRPLIB .vrp"
    read = add("import", text, "commands:import_or_extend")
    _value(read, "--name", None, "name of the city (default: the file's)")
    _value(read, "--depot", "ID", "id of the depot (default: the row with depot = 1)")
    _value(read, "--unit", None, "unit of a cost of 1 (default: m); for lat, lon: m, km or mi")
    for quantity in ("demand", "capacity"):
        text = f"range of {quantity} in this city (default: the paper's)"
        read.add_argument(f"--{quantity}", nargs=2, type=int, metavar=("LO", "HI"), help=text)
    text = "past orders (columns demand, capacity or both) from which the ranges are derived"
    _value(read, "--history", "FILE", text)
    read.add_argument("--unrounded", action="store_const", const=True, help=_UNROUNDED)
    text = "accept addresses that are over 5 times as far from the center as 75 %% of all addresses"
    read.add_argument("--far", action="store_const", const=True, help=text)
    text = "add addresses to a city; its labels and models stay valid"
    more = add("extend", text, "commands:import_or_extend")
    _value(more, "city", None, "name of the city")
    _value(more, "--name", None, "name of the new city (default: the old name with the next number)")
    for command in (read, more):
        _value(command, "file", None, "addresses; store:PATH for a file in the store")
        _value(command, "--matrix", "FILE", "travel costs: .npy, or a table with from, to, cost")
        _value(command, "--spare", "K", "output classes reserved for future addresses", type=int)
        _add_columns(command, "names of columns in the files of this city")
        text = "order of day and month in dates such as 02/11/2026 in the files of this city"
        _value(command, "--dates", "day-first|month-first", text)


def _add_preset(commands: argparse._SubParsersAction[_Parser]) -> None:
    text = "write a preset for a city of the store"
    preset = commands.add_parser("preset", help=text, description=f"{text.capitalize()}.")
    actions = preset.add_subparsers(dest="action", required=True, metavar="new")
    text = "write NAME.toml, a preset for a city of the store"
    made = _command(actions, "new", text, "preset:new", parents=[_common()])
    _value(made, "name", "NAME", "name of the preset, its labels, training, model and benchmark")
    _value(made, "--city", "NAME", "name of the city (default: the preset's)")
    text = "customers per day (default: those of --history, otherwise of the driven days in the store)"
    made.add_argument("--sizes", nargs=2, type=int, metavar=("LO", "HI"), help=text)
    _value(made, "--history", "FILE", "past orders with the columns date and customer")


def _add_inspect(inspect: _Parser) -> None:
    text = "name of an artifact, MODEL@VERSION, or a file or folder (default: all)"
    inspect.add_argument("path", nargs="?", help=text)
    text = "draw instance (n, i) of the dataset"
    inspect.add_argument("--draw", nargs=2, type=int, metavar=("N", "I"), help=text)
    _value(inspect, "--out", "FILE", "output file of --draw; without --draw, write the file at path there")


def _add_models(models: _Parser) -> None:
    models.hint = "run mcvrp models show MODEL for the versions of a model, or see mcvrp models --help"
    actions = models.add_subparsers(dest="action", metavar="list|show|export|import")
    add = partial(_command, actions, parents=[_common(inherited=True)])
    add("list", "list all models with their versions (default)", "models:list_models")
    show = add("show", "show the versions of a model", "models:list_models")
    _value(show, "model", None, "name of the model")
    export = add("export", "write a version and its city to a self-contained folder", "models:export_model")
    _value(export, "model", "MODEL[@VERSION]", "version to export (default: the champion)")
    text = "name of its city, if the store has several at the same places with other ids of customers"
    _value(export, "--city", "NAME", text)
    read = add("import", "publish an exported model as the next version", "models:import_model")
    _value(read, "--name", None, "name of the imported model (default: its original name)")
    for command in (export, read):
        _value(command, "folder", "FOLDER", "folder of the exported model")


def _add_driven(commands: argparse._SubParsersAction[_Parser]) -> None:
    text = "remove a driven day that was read from a wrong file"
    driven = commands.add_parser("driven", help=text, description=f"{text.capitalize()}.")
    actions = driven.add_subparsers(dest="action", required=True, metavar="remove")
    text = "remove a day and the labels made from it; the next night reads its corrected file"
    remove = _command(actions, "remove", text, "driven:remove", parents=[_common()])
    _value(remove, "day", "DAY", "date of the day, such as 2026-01-31", type=_date)
    _value(remove, "--city", "NAME", "name of the city (default: the preset's)")


def _add_store(commands: argparse._SubParsersAction[_Parser]) -> None:
    text = "copy a store to another folder or bucket"
    store = commands.add_parser("store", help=text, description=f"{text.capitalize()}.")
    actions = store.add_subparsers(dest="action", required=True, metavar="copy")
    copy = _command(actions, "copy", f"{text}, or resume the copy", "store:copy", parents=[_common()])
    _value(copy, "source", "FROM", "folder or s3://bucket/prefix of the store")
    _value(copy, "target", "TO", "empty folder or prefix, or an unfinished copy")


def _add_champion(promote: _Parser, rollback: _Parser) -> None:
    _value(promote, "model", None, "name of the model")
    _value(promote, "version", None, "version number, or challenger")
    rollback.add_argument("model", nargs="?", help="name (default: the preset's)")
    for command in (promote, rollback):
        _value(command, "--why", "TEXT", "reason, kept in the model's history")


def _add_columns(parser: _Parser, text: str) -> None:
    example = 'id="Code client" demand=Colis'
    text = f"{text}, by field: {example} (default: the names in the documentation)"
    parser.add_argument(
        "--columns", nargs="+", action=_NamedColumns, metavar="FIELD=NAME", type=_column, help=text
    )


class _NamedColumns(argparse.Action):
    """Names of columns by field, from any number of options; a field has one name."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, *_: Any
    ) -> None:
        columns = getattr(namespace, self.dest) or {}
        for field, name in values:
            if columns.setdefault(field, name) != name:
                both = f"{shown(columns[field])} and {shown(name)}"
                raise argparse.ArgumentError(self, f"{field} has two names, {both}: keep one of them")
        setattr(namespace, self.dest, columns)


def _column(value: str) -> tuple[str, str]:
    from mcvrp.tasks.support.spec import COLUMN_FIELDS  # slow import

    field, _, name = value.partition("=")
    field = "id" if field == "customer" else field
    if field not in COLUMN_FIELDS or not name.strip():
        fields = ", ".join(COLUMN_FIELDS)
        raise argparse.ArgumentTypeError(
            f"{shown(value)} is not FIELD=NAME with one of the fields {fields} (a file is named first)"
        )
    return field, name


def _length(value: str) -> float | str:
    if re.fullmatch(LENGTH_PATTERN, text := value.strip().lower()):
        return text
    try:
        return _number(float, value)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"{shown(value)} is not a length such as 45000 or 45km") from None


def _duration(value: str) -> float:
    try:
        return seconds_of(value)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _date(value: str) -> datetime.date:
    try:
        return datetime.date.fromisoformat(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{shown(value)} is not a date like 2026-01-31") from None


# Options of `mcvrp solve` that are not given are None: a preset may set them.
def _add_day(solve: _Parser) -> None:
    add = partial(_value, solve)
    text = "CSV, Excel or Parquet with the columns customer (or id) and demand, or a CVRPLIB .vrp: "
    add("orders", "ORDERS", f"{text}a file, an s3:// URI, or store:PATH for a file in the store")
    text = "capacity of a vehicle (default: the column 'capacity', or the city's only capacity)"
    add("--capacity", "C", text, type=int)
    add(
        "--city",
        "NAME",
        "name of the city (default: that of --preset, or the only one with all customers)",
    )
    text = "date of the day: its orders, if a file has several days; routes.csv is then a file for incoming/"
    add("--date", "DATE", text, type=_date)
    _add_columns(solve, "names of columns in the files of this day")
    add("--fleet", "K", "maximum number of vehicles (default: unlimited)", type=int)
    add(
        "--longest-route",
        "LENGTH",
        "maximum cost of a route, in the city's unit, or such as 45km (default: unlimited)",
        type=_length,
    )
    text = (
        "maximum duration of a route with its stops, in seconds or such as 8h; the city's costs are seconds"
    )
    add("--shift", "DURATION", text, type=_duration)
    text = (
        "service time of an order such as 180 or 3min (default: 0), if its column 'service' is empty; with "
    )
    add("--service", "DURATION", f"{text}--shift", type=_duration)
    text = "leave out customers for whom the limits have no room, lowest column 'priority' first"
    solve.add_argument("--drop", action="store_const", const=True, help=text)
    add("--keep", "ROUTES", "decided routes, or their first stops: columns route, stop, customer, kept")
    solve.add_argument("--service-time", type=_duration, dest="service", help=argparse.SUPPRESS)
    solve.add_argument(*_FLEET, type=int, dest="fleet", help=argparse.SUPPRESS)
    solve.add_argument(*_LONGEST_ROUTE, type=_length, dest="longest_route", help=argparse.SUPPRESS)
    for name in _TIME_WINDOWS:  # kept is the name of the option, whatever its value
        kept: dict[str, Any] = {"type": lambda value, name=name: name, "nargs": "?", "const": name}
        solve.add_argument(name, dest="time_window", help=argparse.SUPPRESS, **kept)
    solve.add_argument("--unrounded", action="store_true", help=_UNROUNDED)


def _add_search(solve: _Parser) -> None:
    add = partial(_value, solve)
    text = "name of the model (default: the preset's, or the city's only one), or a folder of mcvrp models "
    add("--model", "NAME|FOLDER", f"{text}export, whose city is then the default")
    text = "version of the model (default: the champion, otherwise the latest)"
    add("--version", "N|champion|latest", text)
    text = "search by the model and a solver on each core (auto, default), or by one of them alone"
    add("--by", "auto|model|SOLVER", text)
    text = "number of the model's samples (default: 100); 0: no model (default for a .vrp)"
    add("--samples", "S", text, type=int)
    text = "time limit in seconds, start-up included; it ends before if nothing improves (default: 10)"
    add("--time-limit", "SECONDS", text, type=float)
    add("--start", "ROUTES", "initial routes: columns route, stop, customer")
    add("--seed", "N", "random seed (default: 0)", type=int)
    add("--out", "FOLDER", "output folder (default: ./routes/NAME OF THE ORDERS-HASH)")
    text = "replace routes of other orders in the output folder"
    solve.add_argument("--overwrite", action="store_true", help=text)
