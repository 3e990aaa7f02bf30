"""Public names of the package, imported when they are first used (PEP 562).

Solver workers import modules of packages that also contain networks, and must not wait for torch: no package
imports its modules when it is imported.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def lazy(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of ``package``, whose names ``file`` imports for type checkers.

    These are the imports of the form ``from mcvrp.model.problem import City as City``.
    """
    imports = [n for n in ast.walk(ast.parse(Path(file).read_bytes())) if isinstance(n, ast.ImportFrom)]
    modules = {each.name: str(node.module) for node in imports for each in node.names if each.asname}

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)  # later uses do not call this function
        return value

    return get, lambda: sorted({*modules, *vars(sys.modules[package])})
