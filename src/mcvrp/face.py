"""Public names of a package, imported when they are first used (PEP 562).

Solver workers import modules of packages that also contain networks, and must not wait for torch: no package
imports its modules when it is imported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any


def lazy(package: str, **names: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of ``package``, by the public ``names`` of each of its modules.

    They are separated by blanks: ``spec="LabelSpec"``. Two underscores represent a dot.
    """
    modules = {name: module.replace("__", ".") for module, public in names.items() for name in public.split()}

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{modules[name]}"), name)
        setattr(sys.modules[package], name, value)  # later uses do not call this function
        return value

    return get, lambda: sorted({*modules, *vars(sys.modules[package])})
