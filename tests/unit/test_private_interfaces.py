"""Other packages: pins that the requirements admit, and the private parts that the source uses or replaces.

A release may change a private part without notice: it fails here first, with the name.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name
from typing import NamedTuple

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


class Interface(NamedTuple):
    """A private part of a package, or a public one that is replaced."""

    name: str  # "module:object"; attributes of instances follow the class
    used: str  # file that uses it
    why: str
    parameters: tuple[str, ...] | None = None  # of a function

    @property
    def package(self) -> str:
        return re.split(r"[:.]", self.name)[0]

    @property
    def last(self) -> str:
        return re.split(r"[:.]", self.name)[-1]

    def missing(self) -> str | None:
        try:
            owner, _, last = self.name.rpartition("." if "." in self.name.partition(":")[2] else ":")
            container = resolve_name(owner)
            member = getattr(container, last, None)
            if member is None and not _sets(container, last):
                return "it is gone"
        except (ImportError, AttributeError) as error:
            return f"it is gone ({error})"
        if self.parameters is not None:
            now = tuple(inspect.signature(member).parameters)
            return f"it takes {now}, not {self.parameters}" if now != self.parameters else None
        return None


def _sets(kind: object, attribute: str) -> bool:
    """Return whether the code of ``kind`` or of a base sets the attribute of its instances."""
    bases = kind.__mro__ if isinstance(kind, type) else ()
    return any(
        re.search(rf"\bself\.{attribute}\b[^=\n]*=[^=]", inspect.getsource(base))
        for base in bases
        if base.__module__ not in ("builtins", "abc", "typing")
    )


SEEN = {"deepspeed": "0.19.8", "elkai": "2.0.1", "pyvrp": "0.14.1"}
_TRAIN = "tasks/train/engine.py"
_LKH, _SEARCH = "tasks/solvers/elkai_lkh.py", "tasks/solvers/local_search.py"
_ZERO = "deepspeed.runtime.zero.stage_1_and_2:DeepSpeedZeroOptimizer"
_RESTORED = "moments are restored before the first step"
INTERFACES = [
    Interface(f"{_ZERO}._hp_optimizer_states_linked", _TRAIN, _RESTORED),
    Interface(f"{_ZERO}._lazy_init_hp_params_optimizer_state", _TRAIN, _RESTORED, ("self",)),
    Interface("elkai:_elkai", _LKH, "LKH-3 for problems that elkai itself does not take"),
    Interface("pyvrp.search._search:LocalSearch", _SEARCH, "the search without PyVRP's perturbation"),
]


@pytest.mark.parametrize("interface", INTERFACES, ids=lambda interface: interface.name)
def test_private_interfaces_are_unchanged(interface: Interface) -> None:
    if importlib.util.find_spec(interface.package) is None:  # an extra
        pytest.skip(f"{interface.package} is not installed")
    missing, seen = interface.missing(), SEEN.get(interface.package, "any Python")
    assert missing is None, (
        f"{interface.name}: {missing}; seen in {interface.package} {seen}, used in {interface.used}: "
        f"{interface.why}"
    )


@pytest.mark.parametrize("package", SEEN)
def test_a_new_release_is_reviewed(package: str) -> None:
    names = [interface.name for interface in INTERFACES if interface.package == package]
    assert SEEN[package] == PINS[package], f"look at {', '.join(names)}, and note the version here"


def test_every_reach_into_another_package_is_listed() -> None:
    reached = {
        (path.relative_to(ROOT).as_posix(), name) for path in SOURCE for name in reaches(path.read_text())
    }
    assert reached == {(interface.used, interface.last) for interface in INTERFACES}


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
