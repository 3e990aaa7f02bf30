"""Faces of packages: every public name is there, also for type checkers, and loads nothing until then."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import mcvrp

ROOT = Path(mcvrp.__file__).parent
FACES = sorted(
    ".".join(("mcvrp", *path.parent.relative_to(ROOT).parts))
    for folder in (ROOT, *(ROOT / floor for floor in ("model", "storage", "tasks", "flows")))
    for path in (folder.glob("__init__.py") if folder == ROOT else folder.rglob("__init__.py"))
)


def declared(package: str) -> set[str]:
    """Return the names that the package gives to type checkers: what it imports as itself."""
    path = Path(str(import_module(package).__file__))
    return set(re.findall(r"\b(\w+) as \1\b", path.read_text()))


@pytest.mark.parametrize("package", FACES)
def test_a_face_is_what_it_says(package: str) -> None:
    face = import_module(package)
    assert face.__doc__
    names = declared(package)
    assert all(getattr(face, name) is not None for name in names)
    assert names <= set(dir(face))
    with pytest.raises(AttributeError, match="has no attribute 'nothing_of_the_kind'"):
        getattr(face, "nothing_of_the_kind")  # noqa: B009


def test_the_package_is_imported_at_once() -> None:
    heavy = "{'torch', 'ray', 'prefect', 'pyarrow', 'numpy', 'pandas'}"
    code = f"import sys, mcvrp, mcvrp.tasks.label, mcvrp.storage; print(sorted({heavy} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"
