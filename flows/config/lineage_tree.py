"""Lineages as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mcvrp.model.errors import printable
from mcvrp.storage.lineage import Artifact, Link

_DEEPEST = 100  # levels


def tree_text(artifacts: Mapping[str, Artifact], title: str = "") -> str:
    """Return the linked ``artifacts`` as a tree: hash, versions of mcvrp, and what is broken.

    An artifact is shown below the last of those that lead to it. What is below it is shown once.
    """
    first, *lines = _lines(artifacts, Link(next(iter(artifacts))), set(), 0)
    return "\n".join([title or first, *lines])


def _lines(artifacts: Mapping[str, Artifact], link: Link, shown: set[str], level: int) -> Iterator[str]:
    artifact = artifacts[link.path]
    further = [each for each in artifact.links if not _leads(artifacts, artifact, each.path)]
    again = bool(further) and (link.path in shown or level == _DEEPEST)
    makers = (f"mcvrp {each.release}" for each in artifact.provenance.makers) if artifact.provenance else ()
    faults = (f"[{fault}]" for fault in (link.fault, artifact.fault) if fault)
    parts = link.path, artifact.hash[:12], *makers, *faults, "…" * again
    yield printable("  ".join(filter(None, parts)))
    shown.add(link.path)
    for each in further if not again else ():
        marks = ("└── ", "    ") if each is further[-1] else ("├── ", "│   ")
        for k, line in enumerate(_lines(artifacts, each, shown, level + 1)):
            yield marks[k > 0] + line


def _leads(artifacts: Mapping[str, Artifact], artifact: Artifact, path: str) -> bool:
    """Return whether another link of ``artifact`` leads to ``path``, at whatever distance."""
    left = [each.path for each in artifact.links if each.path != path]
    for reached in left:  # which grows
        further = [each.path for each in artifacts[reached].links if reached != artifact.path]
        if path in further:
            return True
        left += [each for each in further if each not in left]
    return False
