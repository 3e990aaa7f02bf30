"""A base installation: days are routed, stores read and cities made without the extra `pipeline`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mcvrp.flows.cli.main import run
from mcvrp.flows.config import preflight
from mcvrp.flows.config.stages import STAGES
from mcvrp.storage.store.store import Store
from tests.support.solving import put_day

# What `pip install .` leaves out: whoever imports one of these ends with an error.
_BLOCKED = ("prefect", "ray", "deepspeed", "asyncpg", "fastapi", "sqlalchemy", "elkai")
_SCRIPT = f"""
import shlex, sys

sys.modules.update(dict.fromkeys({_BLOCKED!r}))  # so that their import fails
import mcvrp
for name in dir(mcvrp):
    getattr(mcvrp, name)
from mcvrp.flows.cli.main import run
for line in sys.stdin.read().splitlines():
    print("code", run(shlex.split(line)), line, flush=True)
"""
_BASE = """\
inspect
inspect small@champion
inspect models/small
solve monday.csv --capacity 9 --samples 2 --city small --model small --time-limit 120
solve monday.csv --capacity 9 --by pyvrp --time-limit 120 --overwrite
city create --set city.customers=30 --set city.name=drawn
city import addresses.csv --name own
inspect cities/own
plan
gc
"""
_PIPELINE = ("run", "label", "train", "am", "benchmark", "nightly", "verify small", "ui")


@pytest.mark.slow
def test_a_base_installation_routes_reads_and_makes_cities(tmp_path: Path) -> None:
    put_day(Store.open(tmp_path / "store"))
    (tmp_path / "monday.csv").write_text("customer,demand\n" + "".join(f"{k},2\n" for k in range(1, 9)))
    (tmp_path / "addresses.csv").write_text("id,x,y,depot\nd,0,0,1\na,1,0,0\nb,0,1,0\nc,1,1,0\n")
    asked = subprocess.run(
        [sys.executable, "-P", "-c", _SCRIPT],
        input=_BASE + "\n".join(_PIPELINE),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert asked.returncode == 0, asked.stderr
    codes = [line.removeprefix("code ") for line in asked.stdout.splitlines() if line.startswith("code ")]
    assert codes == [*(f"0 {line}" for line in _BASE.splitlines()), *(f"2 {line}" for line in _PIPELINE)]
    said = [line for line in asked.stderr.splitlines() if line.startswith("mcvrp: ")]
    assert said == [
        "mcvrp: this command needs the extra 'pipeline', but prefect is not installed: "
        "run pip install '.[pipeline]' in the source folder of mcvrp"
    ] * len(_PIPELINE)


def test_no_command_is_forgotten() -> None:
    commands = {stage.command for stage in STAGES.values()} | {"verify", "ui"}
    assert {line.split()[0] for line in _PIPELINE} == commands - {"", "city create"}


def test_what_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(preflight, "find_spec", lambda name: None if name == "deepspeed" else name)
    assert run(["train"]) == 2
    assert "this command needs the extra 'pipeline', but deepspeed is not" in capsys.readouterr().err
