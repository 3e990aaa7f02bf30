"""Tables of the pages agree with the code: columns, methods, options, settings, deployments, names."""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from textwrap import indent
from typing import Any

import pyarrow as pa
import pytest
import typer

import mcvrp
from mcvrp.flows.cli.app import app
from mcvrp.flows.cli.interrupt import INTERRUPTED
from mcvrp.flows.cli.main import run
from mcvrp.flows.config.fields import described
from mcvrp.flows.config.preset import preset_names
from mcvrp.flows.config.spec import PipelineSpec
from mcvrp.flows.config.stages import STAGES
from mcvrp.model import strategies
from mcvrp.model.errors import IncompleteError, McvrpError
from mcvrp.storage.labels.schema import SCHEMA
from mcvrp.tasks.solvers.registry import SOLVERS
from mcvrp.tasks.solvers.strategies import STRATEGIES
from tests.unit.docs import generated
from tests.unit.docs.pages import DOCS, PAGES, ROOT, code, name, rows, section

COMMAND = DOCS / "command.md"
PAGES_OF = {"solve": "solve.md", "city import": "city.md", "ui": "ui.md"}


@pytest.fixture(autouse=True)
def only_our_solvers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry without solvers that other tests of this process have registered."""
    for name_of_solver in [key for key, entry in SOLVERS.items() if not entry.where.startswith("mcvrp.")]:
        monkeypatch.delitem(SOLVERS._entries, name_of_solver)


def test_the_floors() -> None:
    """The drawing of docs/architecture.md has the layers that `make check` holds, line by line."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    drawn = section(DOCS / "architecture.md", "## Floors").split("\n\n")[0]
    floors = drawn.split("├")
    for contract in contracts:
        for container in contract.get("containers", ()):
            name_of_floor = container.removeprefix("mcvrp.")
            floor = next(text for text in floors if re.search(rf"│ {name_of_floor} ", text))
            lines = re.findall(r"│ {12}(\S+(?: \| \S+)*)", floor)
            assert lines == contract["layers"]


def test_the_columns_of_a_label() -> None:
    table = rows((DOCS / "labels.md").read_text(), "Column")
    assert [row[:2] for row in table] == [[f"`{f.name}`", _type_text(f.type)] for f in SCHEMA]


def _type_text(kind: Any) -> str:
    if pa.types.is_list(kind):
        return "list of " + _type_text(kind.value_type).replace("list of", "lists of")
    return {"double": "float64"}.get(str(kind), str(kind))


FIRST_COLUMNS: list[tuple[str, str, Callable[[], Iterable[object]]]] = [
    ("command", "command", lambda: [f"mcvrp {command}" for command, _ in _leaves()]),
    ("command", "preset", preset_names),
    ("command", "code", lambda: [0, IncompleteError.exit_code, McvrpError.exit_code, INTERRUPTED]),
    ("ui", "deployment", lambda: list(STAGES)),
]


@pytest.mark.parametrize(("page", "heading", "names"), FIRST_COLUMNS)
def test_a_table_has_one_row_for_each(page: str, heading: str, names: Callable[[], Iterable[object]]) -> None:
    table = rows((DOCS / f"{page}.md").read_text(), heading)
    assert sorted(row[0].strip("`") for row in table) == sorted(map(str, names()))


def test_the_names_of_the_package() -> None:
    table = rows((DOCS / "python.md").read_text(), "name")
    assert {text.split("(")[0] for row in table for text in code(row[0])} == _public()


def test_the_strategies_of_decoding() -> None:
    """docs/decoding.md has each strategy of `mcvrp.model`; all are public, each kind is registered."""
    table = rows((DOCS / "decoding.md").read_text(), "strategy")
    named = {re.sub(r"\W.*", "", row[0].strip("`")) for row in table}
    made = {strategy for _, strategy in inspect.getmembers(strategies, _is_strategy)}
    assert named == {strategy.__name__ for strategy in made}
    assert named <= _public()
    assert {strategy.kind for strategy in made} == {entry.kind for entry in STRATEGIES.values()}


def _is_strategy(member: object) -> bool:
    ours = inspect.isclass(member) and member.__module__ == strategies.__name__
    return ours and isinstance(getattr(member, "kind", None), str)  # of the protocol it is a property


def _public() -> set[str]:
    public_names = {public for public in dir(mcvrp) if not public.startswith("_")} - {"TYPE_CHECKING", "lazy"}
    return {public for public in public_names if not inspect.ismodule(getattr(mcvrp, public))}


def _commands(parent: Any = None) -> dict[str, Any]:
    return dict(getattr(parent or typer.main.get_command(app), "commands", {}))


def _leaves() -> Iterator[tuple[str, Any]]:
    for command, below in _commands().items():
        inner = _commands(below)
        if inner:
            yield from ((f"{command} {action}", leaf) for action, leaf in inner.items())
        else:
            yield command, below


def _options(leaf: Any) -> set[str]:
    return {name for parameter in leaf.params for name in parameter.opts if name.startswith("--")}


def test_the_options() -> None:
    """Each option is on the page of the command line, or on one of those of a single command."""
    common = _named(section(COMMAND, "## Options of all commands"))
    leaves = dict(_leaves())
    assert set.intersection(*map(_options, leaves.values())) == common - {"--preset", "--set"}
    single = _named(section(COMMAND, "## Options of single commands"))
    for command, leaf in leaves.items():
        if command not in PAGES_OF:
            assert _options(leaf) - common <= single, command
    assert single <= {"--help"}.union(*map(_options, leaves.values()))


@pytest.mark.parametrize("command", PAGES_OF)
def test_the_page_of_a_command_names_its_options(command: str) -> None:
    common = _named(section(COMMAND, "## Options of all commands"))
    options = _options(dict(_leaves())[command]) - common
    assert options <= _named((DOCS / PAGES_OF[command]).read_text())


def _named(text: str) -> set[str]:
    return {option for span in code(text) for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", span)}


def test_the_estimated_cost_of_the_paper(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("mcvrp.flows.cli.plan.local_cores", lambda: 2)
    assert run(["plan", "--preset", "paper"]) == 0
    text = capsys.readouterr().out.rstrip()
    assert indent(text, "    ") in section(DOCS / "cluster.md", "## Cost estimate")


@pytest.mark.parametrize("page", generated.pages(), ids=name)
def test_generated_pages_are_up_to_date(page: Path) -> None:
    """With the registries and specs (`python -m tests.unit.docs.generated`)."""
    assert page.read_text() == generated.pages()[page]


def test_every_setting_that_is_named_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = PipelineSpec.model_json_schema()  # once: a tenth of a second
    monkeypatch.setattr(PipelineSpec, "model_json_schema", lambda: schema)
    sections = "|".join(PipelineSpec.model_fields)
    field = re.compile(rf"(?:--set )?\"?((?:{sections})(?:\.[a-z_0-9]+)+)(?:=.*)?")
    files = ("json", "md", "parquet", "py", "png", "csv")  # city.json is a file
    for page in [page for page in PAGES if page.name != "CHANGELOG.md"]:
        for span in code(page.read_text()):
            if (match := field.fullmatch(span)) and not match[1].endswith(files):
                assert described(match[1]), name(page)
