"""The Typer app of `mcvrp`: how a command is declared. Nothing heavy is imported here: help is fast."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import partial
from importlib.metadata import version
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, TypeAlias, TypeVar, get_type_hints

import typer
from typer import Argument, Option

_PLAIN: dict[str, Any] = {"rich_markup_mode": None, "pretty_exceptions_enable": False}
app = typer.Typer(
    **_PLAIN,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Train and run models that route the daily orders of a fixed set of addresses.",
)


began: ContextVar[float] = ContextVar("began")  # when this command did, by `time.monotonic`


def group(name: str, text: str) -> typer.Typer:
    """Add a group of commands, such as `mcvrp city`."""
    made = typer.Typer(**_PLAIN)
    app.add_typer(made, name=name, help=text)
    return made


def opt(metavar: str | None, text: str, variable: str | None = None) -> Any:
    return Option(metavar=metavar, help=text, callback=_given, envvar=variable, show_envvar=False)


def arg(metavar: str, text: str) -> Any:
    return Argument(metavar=metavar, help=text, callback=_given)


def _given(value: Any) -> Any:
    if isinstance(value, str) and not value.strip():  # of a variable of the shell that is not set
        raise typer.BadParameter("the value is empty")
    return value


def flag(name: str, text: str) -> Any:
    return Option(name, help=text)


Text: TypeAlias = str | None
Number: TypeAlias = int | None
Range: TypeAlias = tuple[int, int] | None
Columns = Annotated[list[str], opt("FIELD=NAME", 'name of a column, such as id="Code client"')]
Sheet = Annotated[Text, opt("NAME", "sheet of a workbook (default: the first visible one)")]
Unrounded = Annotated[bool, flag("--unrounded", "do not round the EUC_2D costs of a .vrp")]


@dataclass(frozen=True)
class Outcome:
    """Result of a command: ``document`` for --json, ``text`` for the terminal, and the exit ``code``.

    ``lacks`` lists what is missing, if anything is, and is printed last.
    """

    document: Any
    text: str
    code: int = 0
    lacks: str = ""


@dataclass(frozen=True, kw_only=True)
class Common:
    """Options of all commands."""

    store: Annotated[str | None, opt("URI", "folder or s3://… (default: $MCVRP_STORE, or ./store)")] = None
    json: Annotated[bool, flag("--json", "print the result as one JSON document on stdout")] = False
    verbose: Annotated[bool, flag("--verbose", "show log output of libraries, and tracebacks")] = False


@dataclass(frozen=True, kw_only=True)
class WithPreset(Common):
    """Options of commands that use a preset."""

    preset: Annotated[
        str | None, opt("NAME|FILE.toml", "preset (default: $MCVRP_PRESET, or laptop)", "MCVRP_PRESET")
    ] = None
    overrides: Annotated[
        list[str], Option("--set", metavar="KEY=VALUE", help="set a field of the preset, empty: unset it")
    ] = field(default_factory=list)


@dataclass(frozen=True)
class Call:
    """A parsed command line: the function of a command with its arguments."""

    common: Common
    body: partial[Outcome]


Body = TypeVar("Body", bound=Callable[..., Outcome])


def command(
    parent: typer.Typer, text: str, name: str = "", *, pipeline: bool = False
) -> Callable[[Body], Body]:
    """Declare a function as a command of ``parent``, with ``pipeline`` as one that needs this extra.

    A parameter whose type is a dataclass, such as `Common`, stands for an option per field. Typer gets a
    function that returns a `Call`: commands run outside of it, where interrupts and errors are ours.
    """

    def register(body: Body) -> Body:
        hints = get_type_hints(body, include_extras=True)
        own, grouped = list[Parameter](), dict[str, Any]()
        for each in signature(body).parameters.values():
            if is_dataclass(hints[each.name]):
                grouped[each.name] = hints[each.name]
                own += _parameters(hints[each.name])
            else:
                own.append(each.replace(annotation=hints[each.name], kind=Parameter.KEYWORD_ONLY))

        def call(**values: Any) -> Call:
            if pipeline:
                from mcvrp.flows.config.preflight import require_pipeline

                require_pipeline()
            parts = {
                key: kind(**{field.name: values.pop(field.name) for field in fields(kind)})
                for key, kind in grouped.items()
            }
            return Call(parts["common"], partial(body, **parts, **values))

        call.__signature__ = Signature(own)  # type: ignore[attr-defined]
        call.__annotations__ = {each.name: each.annotation for each in own}
        parent.command(name or body.__name__, help=text)(call)
        return body

    return register


def _parameters(kind: Any) -> Iterator[Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    for each in fields(kind):
        default = Parameter.empty if each.default is MISSING else each.default
        if each.default_factory is not MISSING:
            default = each.default_factory()
        yield Parameter(each.name, Parameter.KEYWORD_ONLY, default=default, annotation=hints[each.name])


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"mcvrp {version('mcvrp')}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool, Option("--version", callback=_print_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    """Options of `mcvrp` itself."""
