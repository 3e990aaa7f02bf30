"""Other packages: pins that the requirements admit, and the private parts that the source uses."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"].values()
REQUIREMENTS = [*PROJECT["dependencies"], *(text for extra in EXTRAS for text in extra)]
PINS = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text().lower(), re.MULTILINE))
ROOMS = ("model", "storage", "tasks", "flows")
SOURCE = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
# Of os, of named tuples, and of Python's data model, in spite of the underscores; a setting of logging.
DOCUMENTED = {"_exit", "_fields", "_asdict", "__file__", "__call__", "raiseExceptions"}
# Of DeepSpeed, elkai and PyVRP: resumed training, LKH-3 and local search are tested with the packages.
INTERFACES = {
    ("tasks/train/engine.py", "_hp_optimizer_states_linked"),
    ("tasks/train/engine.py", "_lazy_init_hp_params_optimizer_state"),
    ("tasks/solvers/elkai_lkh.py", "_elkai"),
    ("tasks/solvers/local_search.py", "LocalSearch"),
}


def test_every_reach_into_another_package_is_listed() -> None:
    reached = {
        (path.relative_to(ROOT).as_posix(), name) for path in SOURCE for name in reaches(path.read_text())
    }
    assert reached == INTERFACES


def reaches(code: str) -> Iterator[str]:
    """Yield the private names that ``code`` imports, or takes from what is not its own."""
    nodes = list(ast.walk(ast.parse(code)))
    own = {
        node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    for node in nodes:
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                own.add(name)
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                own.add(name)
    for node in nodes:
        match node:
            case ast.ImportFrom(module=str(module), names=names) if _of_others(module):
                private = any(map(_private, module.split(".")))
                yield from (alias.name for alias in names if private or _private(alias.name))
            case ast.Attribute(attr=name) if _private(name) and name not in own:
                yield name


def _of_others(module: str) -> bool:
    return module != "__future__" and module.split(".")[0] != "mcvrp"


def _private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name not in DOCUMENTED


@pytest.mark.parametrize("text", REQUIREMENTS)
def test_the_pin_is_in_the_range(text: str) -> None:
    wanted = Requirement(text)
    assert wanted.specifier.contains(PINS[wanted.name.lower()])


def test_what_pytorch_brings_for_cuda_is_pinned() -> None:
    named = [name for name in PINS if name.startswith("nvidia-")]
    assert len(named) >= 13
    assert {"triton", "cuda-toolkit", "cuda-bindings"} <= PINS.keys()


def test_the_wheel_for_processors_is_of_the_pinned_version() -> None:
    dry = ["make", "-n", "-B", "check"]
    for_processors, plain = (
        subprocess.run([*dry, *options], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for options in (["CPU=1"], [])
    )
    assert f" -c constraints.txt torch=={PINS['torch']}+cpu -e '.[pipeline,dev,docs,lkh]'" in for_processors
    assert "+cpu" not in plain
