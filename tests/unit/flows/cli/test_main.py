"""Tests of the command line: one sentence and an exit code for every error, before work starts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock, patch

import pytest

from mcvrp.flows.cli import main as cli
from mcvrp.flows.cli.app import Outcome
from mcvrp.flows.config import settings
from mcvrp.flows.config.stages import Stage
from mcvrp.model.errors import IncompleteError, McvrpError
from mcvrp.storage.store import s3
from mcvrp.tasks.label.stage import LabelSummary


@pytest.fixture(autouse=True)
def environment(tmp_path: Path) -> Iterator[None]:
    """A restored environment: the command sets variables for its children."""
    with patch.dict(os.environ, {"MCVRP_STORE": str(tmp_path / "store"), "RAY_ADDRESS": ""}):
        yield


def stored(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("plan --preset laptp", ["no preset 'laptp'", "laptop"]),
        ("plan --verbos", ["--verbos", "--verbose"]),  # no abbreviations
        ("plan --set city.source=imported", ["no city 'laptop'", "mcvrp city import FILE --name laptop"]),
        ("plan --set label.capacity=[1,2]", ["may hold 1 at n=20, a customer may want 9"]),
        ("plan --set train.base=nope@3", ["train.base = nope@3: there is no model 'nope'"]),
        ("run --set label=3", ["--set label: Input should be a valid dictionary", "not 3"]),
        ("preset fields train.networ", ["a preset has no field 'train.networ'"]),
        ("run --set label.workers=100000", ["label.workers = 100000", "cores"]),
        ("run --set benchmark.workers=100000", ["benchmark.workers = 100000", "cores"]),
        ("run --preset paper", ["train.ranks = 16", "cores"]),
        (
            "run --set benchmark.methods=['am'] --set attention.sizes=[200]",
            ["sizes: 200", "the city has 100"],
        ),
        ("run --set attention.model=mine", ["attention.model = 'mine'", "benchmark uses 'laptop'"]),
        ("run --store /proc/mcvrp", ["cannot write", "/proc/mcvrp"]),
        ("label", ["no city 'laptop'", "mcvrp city create"]),
        ("label --store {file}", ["file is not a folder: name one"]),
        ("inspect nothing", ["nothing at"]),
        ("plan --set benchmark.sizes=20", ["benchmark.sizes: Input should be a valid tuple, not 20"]),
        ("plan --set benchmark.sizes=[]", ["benchmark.sizes: Tuple should have at least 1 item"]),
        ("plan --set label.demand=[1,2,3]", ["label.demand: Tuple should have at most 2 items"]),
        ("plan --set train.base=nope", ["train.base: Input should be a model and version", "not 'nope'"]),
        ("inspect --store s4://b/c", ["s4:… is not the address", "s3://bucket/prefix, the only scheme"]),
        ("verify laptop", ["no labels of dataset 'laptop'"]),
        ("verify a/b", ["'a/b' is not a valid name for a dataset"]),
        ("city import", ["FILE"]),
        ("city import addresses.csv", ["no file addresses.csv"]),
        ("city import caf\udce9.csv", ["'caf\\udce9.csv' is not UTF-8"]),
        ("city import {file}", ["file has no rows, only a header (kept)"]),
        ("city import {file} --snap 9", ["--snap needs roads: give --roads URL or EXTRACT"]),
        ("city import {file} --set city.seed=2", ["No such option: --set"]),
        ("rollback lyon --preset smoke", ["No such option: --preset"]),
        ("city import {file} --roads http://a:b@c", ["addresses.roads", "http://HOST:PORT"]),
        ("city import {file} --roads x.osm.pbf --by car", ["addresses.roads.by", "'distance'", "'car'"]),
        ("city import {file} --roads x.osm.pbf --unit s", ["leave unit out"]),
        ("city import {file} --roads http://c --profile foot", ["leave profile out"]),
        ("city import {file} --columns code=id", ["addresses.columns", "code"]),
        ("city import {file} --columns id=a --columns customer=b", ["--columns 'customer=b'"]),
        ("city import {file} --name a/b", ["name: ", "letters, digits, '.', '_' and '-'", "not 'a/b'"]),
        ("city import {file} --capacity 1 4x", ["'--capacity': Input should be a valid integer"]),
        ("city set lyon --capacity 80", ["'--capacity'", "2 arguments"]),
        ("city set lyon --capacity 80 --demand 1 9", ["'--capacity': Input should be a valid integer"]),
        ("city import {file} --unit a&b", ["unit: ", "not 'a&b'"]),
        ("city extend a/b {file} --name c", ["'a/b' is not a valid name for a city"]),
        ("city extend lyon {file} --name c", ["no city 'lyon'", "mcvrp city import"]),
        ("nightly", ["no city 'laptop'", "mcvrp city create"]),
        ("solve day.csv", ["has no city: import one", "mcvrp city import"]),
        ("solve day.csv --store nowhere", ["no store", "nowhere"]),
        ("solve day.vrp", ["there is no file day.vrp"]),
        ("solve day.vrp --columns route=Tour", ["--columns route=", "--keep is not given"]),
        ("solve day.csv --unrounded", ["--unrounded is for the lengths of a .vrp: omit it"]),
        ("solve day.csv --by hgs --samples 5", ["--samples 5: --by hgs searches without a model"]),
        ("solve day.csv --by hgs --model small", ["--model small", "not for --by hgs: omit"]),
        ("solve day.csv --version champoin", ["--version: ", "champion", "champoin"]),
        ("solve day.csv --time-limit nan", ["--time-limit: ", "nan"]),
        ("solve day.csv --longest-route 24kg", ["--longest-route: ", "a unit such as 45km", "not '24kg'"]),
        ("solve day.csv --fleet zwei", ["'--fleet': Input should be a valid integer"]),
        ("solve day.csv --start-time 24:00", ["--start-time: '24:00' is not a time of day such as 08:00"]),
        ("solve day.csv --seed 99999999999999999999999", ["--seed: 99999999999999999999999 is above", "15"]),
        ("solve day.csv --by hgs --set solve.temperature=2", ["solve.temperature", "without a model"]),
        ("solve day.csv --shift 9999999h", ["--shift: '9999999h' is more than a week"]),
        ("solve day.csv --shift 2", ["--shift: '2' is not a duration with a unit such as 8h"]),
        ("inspect models/laptop --store nowhere", ["no store", "nowhere"]),
        ("rnu", ["'rnu'", "'run'"]),
        ("city --store s", ["No such option: --store"]),
    ],
)
def test_invalid_input_is_one_sentence_and_exit_code_2(
    arguments: str, said: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("kept")
    (tmp_path / "store").mkdir()
    assert cli.run(arguments.format(file=tmp_path / "file").split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("mcvrp: ")
    assert err.count("\n") == 1
    assert all(part in err for part in said), err
    assert stored(tmp_path) == [tmp_path / "file"]


@pytest.mark.parametrize(
    "command",
    [
        "plan --preset smoke --set city.source=imported",
        "city create",
        "label",
        "gc --delete",
        "inspect",
        "solve day.csv",
    ],
)
def test_a_bucket_that_does_not_answer_is_not_waited_for(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody connects with the patience of a work that has begun."""
    keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}
    for name, value in {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", **keys}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(s3, "WORKING", None)
    assert cli.run([*command.split(), "--store", "s3://bucket/prefix"]) in (1, 2)
    (line,) = capsys.readouterr().err.splitlines()
    assert "no connection at http://127.0.0.1:9" in line


@pytest.mark.parametrize(
    "arguments",
    ["label", "run --set city.source=imported", "city import {folder}/a.vrp"],
)
def test_a_refused_command_creates_no_store(
    arguments: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "instances").mkdir()
    (tmp_path / "instances" / "a.vrp").write_text("NAME : a\nTYPE : CVRP\n")
    assert cli.run(arguments.format(folder=tmp_path / "instances").split()) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert os.listdir(tmp_path) == ["instances"]


def test_a_plan_of_addresses_needs_no_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "".join(f"C{k},{k % 7},{k % 11},{int(k == 0)}\n" for k in range(60))
    (tmp_path / "addresses.csv").write_text(f"id,x,y,depot\n{rows}")
    addresses = f'city.addresses={{file = "{tmp_path}/addresses.csv"}}'
    command = ["plan", "--preset", "smoke", "--set", "city.source=imported", "--set", addresses]
    assert cli.run(command) == 0
    assert "labels" in capsys.readouterr().out
    assert os.listdir(tmp_path) == ["addresses.csv"]


def test_a_repeated_extension_is_the_same_city(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one of the same name is refused."""
    monkeypatch.chdir(tmp_path)
    for name, x in (("lyon", "0"), ("more", "0.5"), ("others", "0.6")):
        Path(f"{name}.csv").write_text(f"id,x,y,depot\n{name}1,{x},0,{int(x == '0')}\n{name}2,1,{x},0\n")
    assert cli.run(["city", "import", "lyon.csv", "--spare", "9"]) == 0
    for file, code in (("more.csv", 0), ("more.csv", 0), ("others.csv", 2), ("none.csv", 2)):
        assert cli.run(["city", "extend", "lyon", file, "--name", "lyon-2"]) == code
    assert sorted(os.listdir("store/cities")) == ["lyon", "lyon-2"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (McvrpError("wrong"), 2),
        (IncompleteError("half done"), 1),
        (KeyboardInterrupt(), 130),
        (SystemExit(15), 130),  # what Ray makes of SIGTERM
    ],
)
def test_exit_codes(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("mcvrp.flows.cli.plan.plan_run", Mock(side_effect=error))
    assert cli.run(["plan"]) == code
    assert capsys.readouterr().err.count("\n") == 1


def test_missing_results_are_printed_last(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = LabelSummary("d", 3, 3, 1.0, lacks="dataset 'd' lacks 1 of 4 labels")
    monkeypatch.setattr("mcvrp.flows.server.server.prefect_server", lambda **_: nullcontext())
    monkeypatch.setattr(Stage, "load_flow", lambda stage: lambda **_: done)
    monkeypatch.setattr("mcvrp.flows.cli.stage.stored_city", lambda store, name: None)
    monkeypatch.setattr("mcvrp.flows.config.preflight.check_labels", lambda store, city, spec: None)
    assert cli.run(["label"]) == 1
    captured = capsys.readouterr()
    assert captured.err.splitlines()[-1] == "mcvrp: dataset 'd' lacks 1 of 4 labels"
    assert "labels   3" in captured.out
    assert re.search("^folder   .*store/labels/d$", captured.out, re.MULTILINE)


@pytest.mark.parametrize("closed", [True, False])
def test_a_closed_pipe_hides_neither_exit_code_nor_missing_results(
    closed: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As of `mcvrp label | head`; any other broken pipe is an unexpected error."""
    result = {"return_value": Outcome({}, "text", 1, "2 labels are missing")}
    execute = Mock(**(result if closed else {"side_effect": BrokenPipeError("of a worker")}))
    monkeypatch.setattr("mcvrp.flows.cli.plan.plan_run", execute)
    if closed:
        monkeypatch.setattr("sys.stdout", Mock(flush=Mock(side_effect=BrokenPipeError)))
    assert cli.run(["plan"]) == (1 if closed else 2)
    expected = "2 labels are missing" if closed else "unexpected BrokenPipeError: of a worker"
    assert capsys.readouterr().err.startswith(f"mcvrp: {expected}")


def test_an_unexpected_error_is_a_line_and_a_traceback_on_request(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor does a message with half a surrogate pair end in another error."""
    fail = Mock(side_effect=RuntimeError("first line\nwrong \udce9"))
    monkeypatch.setattr("mcvrp.flows.cli.plan.plan_run", fail)
    assert cli.run(["plan"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "RuntimeError: first line wrong \\udce9 (--verbose" in err
    fail.side_effect = RuntimeError("wrong")
    assert cli.run(["plan", "--verbose"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from mcvrp.flows.cli.main import run; run(['--help']); "
        "print([m for m in ('torch', 'ray', 'prefect', 'pandas', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "benchmark" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_search_begins_without_what_draws_or_decodes() -> None:
    """Its time limit includes the imports."""
    heavy = {"torch", "ray", "prefect", "matplotlib", "xlsxwriter"}
    code = f"import sys, mcvrp.flows.cli.solve; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_variables_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """--store overrides $MCVRP_STORE, which overrides ./store; log levels are only defaults."""
    monkeypatch.setenv("MCVRP_STORE", "s3://bucket/a")
    assert settings.store_uri("elsewhere") == "elsewhere"
    assert settings.store_uri(None) == "s3://bucket/a"
    monkeypatch.delenv("MCVRP_STORE")
    assert settings.store_uri(None) == "./store"
    monkeypatch.setenv("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "DEBUG")
    settings.prepare(verbose=False)
    assert os.environ["PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"] == "DEBUG"
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    monkeypatch.setenv("MCVRP_CACHE", "here")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert settings.cache_dir() == Path.cwd() / "here"
    monkeypatch.setenv("MCVRP_CACHE", "")
    assert settings.cache_dir() == Path("/caches/mcvrp")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert settings.cache_dir() == Path.home() / ".cache" / "mcvrp"
