"""Public names of a package, imported when they are first asked for (PEP 562).

A solver worker imports a module beside a network's and must not wait for torch, so no package imports
its modules by itself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any


def lazy(package: str, **names: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of ``package``.

    Parameters
    ----------
    package
        Its ``__name__``.
    names
        What each of its modules gives, separated by blanks: ``spec="LabelSpec"``. Dots of a module's name
        are written as two underscores.
    """
    where = {name: module.replace("__", ".") for module, given in names.items() for name in given.split()}

    def get(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{where[name]}"), name)
        setattr(sys.modules[package], name, value)  # the next time it is simply there
        return value

    return get, lambda: sorted({*where, *vars(sys.modules[package])})
