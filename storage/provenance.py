"""Provenance of an artifact: the programs that made it, and the artifacts that it was made from.

It is the field `provenance` of the artifact's own document, and is part of no hash: the same labels, made by
another version, are the same labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import distributions, entry_points
from typing import Any

from pydantic import TypeAdapter, ValidationError

from mcvrp.storage.markdown import code, escaped

PLUGINS = "mcvrp.plugins"  # group of entry points: modules that register entries when they are imported
_PROGRAMS = ("hybgensea", "pyvrp", "elkai", "torch", "deepspeed")
OUTSIDE = "file:"  # prefix of the name of a file that is not in the store
FIELD = "provenance"


@dataclass(frozen=True)
class Parent:
    """Artifact or file that another was made from: path in the store, and hash at that time ("": none)."""

    path: str
    hash: str = ""


@dataclass(frozen=True)
class Maker:
    """Installation that made an artifact, with solvers, PyTorch, DeepSpeed and plugins, as "torch 2.13.0"."""

    version: str
    programs: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ", ".join([f"mcvrp {self.version}", *self.programs])


@dataclass(frozen=True)
class Provenance:
    """Parents of an artifact, and its makers: several if later versions resumed the work."""

    parents: tuple[Parent, ...] = ()
    makers: tuple[Maker, ...] = ()

    def __str__(self) -> str:
        return "; ".join(map(str, self.makers))


def made(parents: Iterable[Parent | None], earlier: Provenance | None = None) -> Provenance:
    """Return the provenance of what this installation makes now, or resumes after its ``earlier`` makers."""
    makers = dict.fromkeys([*(earlier.makers if earlier else ()), installation()])
    return Provenance(tuple(dict.fromkeys(filter(None, parents))), tuple(makers))


@lru_cache(maxsize=1)
def installation() -> Maker:
    """Return the running installation."""
    installed = [each for name in _PROGRAMS for each in distributions(name=name)]
    installed += [plugin.dist for plugin in entry_points(group=PLUGINS) if plugin.dist]
    programs = tuple(sorted({f"{each.name} {each.version}" for each in installed}))
    return Maker(next((each.version for each in distributions(name="mcvrp")), "unknown"), programs)


def provenance_in(document: object) -> Provenance | None:
    """Return the provenance in ``document`` as JSON, None if it has none, or an invalid one."""
    field: Any = document.get(FIELD) if isinstance(document, Mapping) else None
    try:
        return _ADAPTER.validate_python(field) if field else None
    except ValidationError:
        return None


_ADAPTER = TypeAdapter(Provenance)


def provenance_line(provenance: Provenance | None) -> str:
    """Return makers and parents as Markdown for a card, "" if unknown."""
    if provenance is None:
        return ""
    parents = [code(parent.path.removeprefix(OUTSIDE)) for parent in provenance.parents]
    origins = f" from {', '.join(parents)}" if parents else ""
    return f"Made by {escaped(provenance)}{origins}."
