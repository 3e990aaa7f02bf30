"""The Typer app of `mcvrp`: how a command is declared. Nothing heavy is imported here: help is fast."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import partial
from importlib.metadata import version
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, TypeVar, get_type_hints

import typer
from typer import Argument, Option

_PLAIN: dict[str, Any] = {"rich_markup_mode": None, "pretty_exceptions_enable": False}
app = typer.Typer(
    **_PLAIN, help="Train and run models that route the daily orders of a fixed set of addresses."
)


began: ContextVar[float] = ContextVar("began")  # when this command did, by `time.monotonic`


def group(name: str, text: str, **options: Any) -> typer.Typer:
    """Add a group of commands, such as `mcvrp city`."""
    made = typer.Typer(**_PLAIN, **options)
    app.add_typer(made, name=name, help=text)
    return made


def opt(metavar: str | None, text: str) -> Any:
    return Option(metavar=metavar, help=text)


def arg(metavar: str, text: str) -> Any:
    return Argument(metavar=metavar, help=text)


def flag(name: str, text: str) -> Any:
    return Option(name, help=text)


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

    preset: Annotated[
        str | None, opt("NAME|FILE.toml", "preset (default: the last one used on the store)")
    ] = None
    store: Annotated[str | None, opt("URI", "folder or s3://… (default: $MCVRP_STORE, or ./store)")] = None
    overrides: Annotated[
        list[str], Option("--set", metavar="KEY=VALUE", help="set a field of the preset, empty: unset it")
    ] = field(default_factory=list)
    json: Annotated[bool, flag("--json", "print the result as one JSON document on stdout")] = False
    quiet: Annotated[bool, flag("--quiet", "print only errors and the last lines of the result")] = False
    verbose: Annotated[bool, flag("--verbose", "show log output of libraries, and tracebacks")] = False


@dataclass(frozen=True)
class Call:
    """A parsed command line; ``needs`` names the command if it needs the extra `pipeline`."""

    common: Common
    body: partial[Outcome]
    needs: str = ""


def execute(call: Call) -> Outcome:
    """Run the command of ``call``; McvrpError if input or environment are invalid, if possible at once."""
    if call.needs:
        from mcvrp.flows.config.preflight import require_pipeline

        require_pipeline(call.needs)
    return call.body()


Body = TypeVar("Body", bound=Callable[..., Outcome])


def command(
    parent: typer.Typer, text: str, name: str = "", *, pipeline: bool = False, default: bool = False
) -> Callable[[Body], Body]:
    """Declare a function as a command of ``parent``, or with ``default`` as what the group itself does.

    A parameter whose type is a dataclass, such as `Common`, stands for an option per field. Typer gets a
    function that returns a `Call`: commands run outside of it, where interrupts and errors are ours.
    """

    def register(body: Body) -> Body:
        own, grouped = dict[str, Parameter](), dict[str, Any]()
        hints = get_type_hints(body, include_extras=True)
        for each in signature(body).parameters.values():
            kind = hints[each.name]
            if is_dataclass(kind):
                grouped[each.name] = kind
                own |= {part.name: part for part in _parameters(kind)}
            else:
                own[each.name] = each.replace(annotation=kind, kind=Parameter.KEYWORD_ONLY)

        def call(ctx: typer.Context, **values: Any) -> Call | None:
            for option, value in values.items():
                if isinstance(value, str) and value != own[option].default and not value.strip():
                    name = option if own[option].default is Parameter.empty else f"--{option}"
                    raise typer.BadParameter(f"{name}: the value is empty")
            before = vars(ctx.obj) if ctx.obj else {}  # options before the subcommand
            values |= {option: value for option, value in before.items() if not values.get(option)}
            parts = {
                key: kind(**{f.name: values.pop(f.name) for f in fields(kind)})
                for key, kind in grouped.items()
            }
            if ctx.invoked_subcommand:
                ctx.obj = parts["common"]
                return None
            return Call(
                parts["common"], partial(body, **parts, **values), ctx.command_path if pipeline else ""
            )

        context = Parameter("ctx", Parameter.KEYWORD_ONLY, annotation=typer.Context)
        call.__signature__ = Signature([context, *own.values()])  # type: ignore[attr-defined]
        call.__annotations__ = {"ctx": typer.Context} | {key: each.annotation for key, each in own.items()}
        if default:
            parent.callback(invoke_without_command=True)(call)
        else:
            parent.command(name or body.__name__.rstrip("_"), help=text)(call)
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
