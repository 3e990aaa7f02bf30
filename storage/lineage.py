"""Lineage of an artifact: what it was made from, up to the files of users, and what was made of it."""

from __future__ import annotations

import hashlib
import io
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
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
_FILES = 20  # files of driven routes that are listed, the latest
_DEEPEST = 100  # levels of a tree
# By top folder: number of folders in the path of an artifact, its document, and the field with its hash.
_DOCUMENTS = {
    "cities": (2, "city.json", "city_id"),
    "labels": (2, "manifest.json", "fingerprint"),
    "training": (3, "state.json", ""),  # of its last checkpoint
    "models": (3, "model.json", "weights_sha256"),
    "attention": (3, "model.json", "weights_sha256"),
    "benchmarks": (2, "summary.json", ""),
    "solutions": (2, "summary.json", "digest"),
    "nights": (3, layout.TRIAL_RECORDS["nights"], ""),
    "rounds": (3, layout.TRIAL_RECORDS["rounds"], ""),
    "driven": (2, "", ""),
}


@dataclass(frozen=True)
class Artifact:
    """Artifact as it is now; ``hash`` is "" if none identifies it, ``made`` the time in seconds."""

    path: str
    hash: str = ""
    provenance: Provenance | None = None
    made: float = 0.0


@dataclass(frozen=True)
class Branch:
    """Artifact in a tree, with its parents or what was made of it; ``fault`` describes a broken link."""

    path: str
    hash: str
    provenance: Provenance | None
    fault: str = ""
    branches: tuple[Branch, ...] = ()

    def paths(self) -> Iterator[str]:
        """Yield the paths of the tree."""
        yield self.path
        for branch in self.branches:
            yield from branch.paths()


def artifact_path(path: str) -> str | None:
    """Return the path of the artifact that ``path`` is or is a file of, None for a folder of several."""
    parts = path.strip("/").split("/")
    depth = _DOCUMENTS.get(parts[0], (len(parts) + 1,))[0]
    return "/".join(parts[:depth]) if len(parts) >= depth else None


def artifacts_below(store: Store, path: str) -> list[str]:
    """Return the paths of all artifacts in the folder ``path`` of the store, such as models/NAME."""
    if artifact_path(path) is not None:
        return [path]
    tops = [path] if path else list(_DOCUMENTS)
    folders = [f"{top}/{name}" for top in tops for name in store.folders(top)]
    return [artifact for folder in folders for artifact in artifacts_below(store, folder)]


@dataclass
class Lineage:
    """Trees of artifacts in ``store``; each document is read once."""

    store: Store
    _read: dict[str, Artifact | None] = field(default_factory=dict)

    def artifact(self, path: str) -> Artifact | None:
        """Return the artifact or file at ``path`` as it is now, None if there is none."""
        if path not in self._read:
            self._read[path] = self._read_artifact(path)
        return self._read[path]

    def ancestors(self, path: str) -> Branch:
        """Return ``path`` with what it was made from, up to files outside of the store."""
        return self._above(Parent(path))

    def tree(self, path: str, provenance: Provenance) -> Branch:
        """Return the ancestors of something outside of the store with this ``provenance``."""
        return Branch(path, "", provenance, "", tuple(map(self._above, provenance.parents)))

    def descendants(self, path: str) -> Branch:
        """Return ``path`` with what was made of it; this reads the documents of all artifacts."""
        return self._below(path, "", frozenset())

    def _above(self, parent: Parent, below: frozenset[str] = frozenset()) -> Branch:
        path = parent.path
        if is_outside(path):
            return Branch(path, parent.hash, None)
        artifact = self.artifact(path)
        if artifact is None:
            return Branch(path, parent.hash, None, "no longer in the store")
        if len(below) == _DEEPEST or path in below:
            return Branch(path, parent.hash, None, f"for more, run mcvrp lineage {path}")
        parents = artifact.provenance.parents if artifact.provenance else ()
        branches = tuple(self._above(each, below | {path}) for each in parents)
        fault = _changed(parent.hash, artifact.hash, "changed since: it was {}, and is {} now")
        return Branch(path, artifact.hash or parent.hash, artifact.provenance, fault, branches)

    def _below(self, path: str, used: str, above: frozenset[str]) -> Branch:
        artifact = self.artifact(path) or Artifact(path)
        children = self._children[path] if path not in above and len(above) < _DEEPEST else []
        branches = []
        for child, recorded in children:
            branch = self._below(child, recorded, above | {path})
            fault = _changed(recorded, artifact.hash, "made when it was {}, it is {} now")
            branches.append(Branch(child, branch.hash, branch.provenance, fault, branch.branches))
        return Branch(path, artifact.hash, artifact.provenance, "", tuple(branches))

    @cached_property
    def _children(self) -> Mapping[str, list[tuple[str, str]]]:
        """Artifacts by the path of a parent, each with the hash that the parent had."""
        children: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for path in artifacts_below(self.store, ""):
            artifact = self.artifact(path)
            for parent in artifact.provenance.parents if artifact and artifact.provenance else ():
                children[parent.path].append((path, parent.hash))
        return children

    def _read_artifact(self, path: str) -> Artifact | None:
        top = path.split("/")[0]
        if top == "driven":
            return self._driven(path)
        if artifact_path(path) != path:
            return self._file(path)
        _, name, hash_field = _DOCUMENTS[top]
        place, document = self._document(path, name)
        if document is None:
            # labels that are still being made
            return Artifact(path, "", self._spec(path)) if self.store.exists(path) else None
        digest = document.get(hash_field, "") if hash_field else ""
        if top == "training":
            digest = document.get("files", {}).get("weights.safetensors", {}).get("sha256", "")
        file = self.store.stat(place)
        return Artifact(path, str(digest), provenance_in(document), file.modified if file else 0.0)

    def _document(self, path: str, name: str) -> tuple[str, dict[str, Any] | None]:
        """Return path and content of the document of an artifact, None without a valid one."""
        folder = path
        if path.startswith("training/"):
            steps = [step for step in self.store.folders(path) if self.store.exists(f"{path}/{step}/{name}")]
            folder = f"{path}/{max(steps, default='')}"
        return f"{folder}/{name}", _json(self.store, f"{folder}/{name}")

    def _spec(self, path: str) -> Provenance | None:
        return provenance_in(_json(self.store, f"{path}/spec.json"))

    def _driven(self, path: str) -> Artifact | None:
        """Return the driven days of a city, made from the latest files of routes."""
        if not self.store.exists(path):
            return None
        files = sorted(receipts(self.store, path.split("/")[1]), key=lambda receipt: receipt.days[-1:])
        parents = (Parent(f"{OUTSIDE}{file.name}", file.sha256) for file in files[-_FILES:])
        return Artifact(path, "", Provenance(tuple(parents)))

    def _file(self, path: str) -> Artifact | None:
        if self.store.stat(path) is None:
            return None
        return Artifact(path, hashlib.sha256(self.store.get(path)).hexdigest())


def _json(store: Store, path: str) -> dict[str, Any] | None:
    try:
        document = store.get_json(path) if store.exists(path) else None
    except StoreError:
        raise
    except McvrpError:  # corrupt: the commands that need it say so
        return None
    return document if isinstance(document, dict) else None


def _changed(recorded: str, now: str, text: str) -> str:
    if not (recorded and now) or recorded == now:
        return ""
    return text.format(recorded[:_SHORT], now[:_SHORT])


def tree_text(root: Branch, title: str = "") -> str:
    """Return a tree for the terminal, one line per artifact: hash, makers, and the fault of its link."""
    stream = io.StringIO()
    Console(file=stream, width=1000, color_system=None).print(_tree(root, title))
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines())


def _tree(branch: Branch, title: str = "") -> Tree:
    makers = str(branch.provenance or "")
    parts = [branch.path, branch.hash[:_SHORT], makers, branch.fault and f"[{branch.fault}]"]
    tree = Tree(Text(printable(title or "  ".join(filter(None, parts)))))
    reached = {path for each in branch.branches for below in each.branches for path in below.paths()}
    for each in branch.branches:
        if each.path not in reached:  # otherwise it is shown further up the tree, once
            tree.children.append(_tree(each))
    return tree
