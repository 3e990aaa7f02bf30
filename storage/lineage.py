"""Lineage of an artifact: what it was made from, up to the files of users, and what was made of it."""

from __future__ import annotations

import hashlib
import io
from collections import defaultdict
from collections.abc import Iterator, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from mcvrp.model.errors import McvrpError, printable
from mcvrp.storage import layout
from mcvrp.storage.driven import receipts
from mcvrp.storage.provenance import OUTSIDE, Parent, Provenance, is_outside, provenance_in
from mcvrp.storage.store.store import Store, StoreError

_SHORT = 12  # digits of a hash that are shown
_DEEPEST = 100  # levels of a tree
# By top folder: folders in the path of an artifact, its document, and the keys of its hash there.
_DOCUMENTS: dict[str, tuple[int, str, tuple[str, ...]]] = {
    "cities": (2, "city.json", ("city_id",)),
    "labels": (2, "manifest.json", ("fingerprint",)),
    "training": (3, "state.json", ("files", "weights.safetensors", "sha256")),  # of its last checkpoint
    "models": (3, "model.json", ("weights_sha256",)),
    "attention": (3, "model.json", ("weights_sha256",)),
    "benchmarks": (2, "summary.json", ()),
    "solutions": (2, "summary.json", ("digest",)),
    "nights": (3, layout.TRIAL_RECORDS["nights"], ()),
    "rounds": (3, layout.TRIAL_RECORDS["rounds"], ()),
    "driven": (2, "", ()),
}


@dataclass(frozen=True)
class Branch:
    """Artifact as it is now, in a tree of its parents or of what was made of it.

    ``hash`` is "" if none identifies it, ``made`` in seconds since 1970; ``fault`` describes a broken link.
    """

    path: str
    hash: str = ""
    provenance: Provenance | None = None
    made: float = 0.0
    fault: str = ""
    branches: tuple[Branch, ...] = ()

    def all(self) -> Iterator[Branch]:
        """Yield all artifacts of the tree, some of them several times."""
        yield self
        for branch in self.branches:
            yield from branch.all()


def artifacts_at(store: Store, path: str) -> list[str]:
    """Return the artifact that ``path`` is or is a file of, or those in this folder, such as models/NAME."""
    parts, tops = path.split("/"), [path] if path else list(_DOCUMENTS)
    depth = _DOCUMENTS.get(parts[0], (0,))[0]
    if len(parts) >= depth and path:
        return ["/".join(parts[:depth])] if depth else []
    below = [f"{top}/{name}" for top in tops for name in store.folders(top)]
    return [artifact for folder in below for artifact in artifacts_at(store, folder)]


@dataclass
class Lineage:
    """Trees of artifacts in ``store``, whose documents are read once."""

    store: Store
    _read: dict[str, Branch | None] = field(default_factory=dict)

    def artifact(self, path: str) -> Branch | None:
        """Return the artifact or file at ``path`` alone, None if it is missing or corrupt."""
        if path not in self._read:
            try:
                self._read[path] = self._stored(path)
            except StoreError:
                raise
            except McvrpError:  # corrupt, or a path that no store has
                self._read[path] = None
        return self._read[path]

    def ancestors(self, path: str, recorded: str = "", below: Set[str] = frozenset()) -> Branch:
        """Return ``path``, whose hash was ``recorded``, with what it was made from."""
        artifact = None if is_outside(path) else self.artifact(path)
        if artifact is None:
            return Branch(path, recorded, fault="" if is_outside(path) else "missing or corrupt")
        told = None if path in below or len(below) == _DEEPEST else artifact.provenance
        parents = told.parents if told else ()
        branches = tuple(self.ancestors(each.path, each.hash, below | {path}) for each in parents)
        fault = _changed(recorded, artifact.hash, "changed since: it was {}, and is {} now")
        return replace(artifact, fault=fault, branches=branches)

    def descendants(self, path: str, above: Set[str] = frozenset()) -> Branch:
        """Return ``path`` with what was made of it; this reads the documents of all artifacts."""
        artifact = self.artifact(path) or Branch(path)
        branches = []
        for child, recorded in self._children[path] if path not in above and len(above) < _DEEPEST else ():
            fault = _changed(recorded, artifact.hash, "made when it was {}, it is {} now")
            branches.append(replace(self.descendants(child, above | {path}), fault=fault))
        return replace(artifact, branches=tuple(branches))

    @cached_property
    def _children(self) -> dict[str, list[tuple[str, str]]]:
        """Artifacts by the path of a parent, each with the hash that the parent had."""
        children: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for path in artifacts_at(self.store, ""):
            artifact = self.artifact(path)
            for parent in artifact.provenance.parents if artifact and artifact.provenance else ():
                children[parent.path].append((path, parent.hash))
        return children

    def _stored(self, path: str) -> Branch | None:
        if not self.store.exists(path):
            return None
        top, _, name = path.partition("/")
        depth, document_name, keys = _DOCUMENTS.get(top, (0, "", ()))
        if depth != path.count("/") + 1:  # a file of users
            return Branch(path, hashlib.sha256(self.store.get(path)).hexdigest())
        if top == "driven":
            files = (
                Parent(f"{OUTSIDE}{each.name}", each.sha256)
                for each in receipts(self.store, name)
                if each.days
            )
            return Branch(path, provenance=Provenance(tuple(files)))
        steps = [path]
        if top == "training":
            steps = [f"{path}/{step}" for step in self.store.folders(path)]
        places = [f"{step}/{document_name}" for step in steps] + [f"{path}/spec.json"]  # labels, not finished
        place = max((place for place in places[:-1] if self.store.exists(place)), default=places[-1])
        document = self.store.get_json(place)
        digest: Any = document if keys else ""
        for key in keys:
            digest = digest.get(key, "") if isinstance(digest, dict) else ""
        file = self.store.stat(place)
        return Branch(path, str(digest), provenance_in(document), file.modified if file else 0.0)


def _changed(recorded: str, now: str, text: str) -> str:
    broken = recorded and now and recorded != now
    return text.format(recorded[:_SHORT], now[:_SHORT]) if broken else ""


def tree_text(root: Branch, title: str = "") -> str:
    """Return a tree with one line per artifact: hash, makers, and the fault of its link."""
    stream = io.StringIO()
    Console(file=stream, width=1000, color_system=None).print(_tree(root, title))
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines())


def _tree(branch: Branch, title: str = "") -> Tree:
    parts = branch.path, branch.hash[:_SHORT], str(branch.provenance or ""), branch.fault.join("[]")
    tree = Tree(Text(printable(title or "  ".join(part for part in parts if part not in ("", "[]")))))
    # what is below another branch is shown there alone
    further = {each.path for top in branch.branches for below in top.branches for each in below.all()}
    tree.children += [_tree(each) for each in branch.branches if each.path not in further]
    return tree
