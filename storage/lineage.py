"""Lineage of an artifact: what it was made from, up to the files of users, and what was made of it."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.driven import receipts
from mcvrp.storage.provenance import OUTSIDE, Parent, Provenance, is_outside, provenance_in
from mcvrp.storage.store.store import Store, StoreError

_NO_RECORD = "no record of its origin"  # such as a phase before its first checkpoint
_UNKNOWN = "made by an earlier version of mcvrp, which recorded no provenance"
# By top folder: folders in the path of an artifact, its documents, the last one first, and where its hash is.
_DOCUMENTS: dict[str, tuple[int, tuple[str, ...], tuple[str, ...]]] = {
    "cities": (2, ("city.json",), ("city_id",)),
    "labels": (2, ("manifest.json", "spec.json"), ("fingerprint",)),
    "training": (3, (), ("files", "weights.safetensors", "sha256")),  # of its last checkpoint
    "models": (3, ("model.json",), ("weights_sha256",)),
    "attention": (3, ("model.json",), ("weights_sha256",)),
    "benchmarks": (2, ("summary.json",), ()),
    "solutions": (2, ("summary.json",), ("digest",)),
    "nights": (3, (layout.TRIAL_RECORDS["nights"],), ()),
    "rounds": (3, (layout.TRIAL_RECORDS["rounds"],), ()),
    "driven": (2, (), ()),
}


@dataclass(frozen=True)
class Link:
    """Link to what an artifact was made from, or to what was made of it; ``fault`` says how it is broken."""

    path: str
    fault: str = ""


@dataclass(frozen=True)
class Artifact:
    """Artifact as it is now; ``fault`` says why it cannot be read, or why nothing is known of its origin.

    ``hash`` is "" if none identifies it.
    """

    path: str
    hash: str = ""
    provenance: Provenance | None = None
    document: str = ""
    fault: str = ""
    links: tuple[Link, ...] = ()


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
    """Artifacts of ``store`` with their links; their documents are read once."""

    store: Store
    _read: dict[str, Artifact] = field(default_factory=dict)

    def artifact(self, path: str) -> Artifact:
        """Return the artifact or file at ``path``, without links."""
        if path not in self._read:
            try:
                self._read[path] = self._stored(path)
            except StoreError:
                raise
            except McvrpError:  # also a path that no store has
                self._read[path] = Artifact(path, fault="missing or corrupt")
        return self._read[path]

    def ancestors(self, path: str, most: int | None = None) -> dict[str, Artifact]:
        """Return ``path`` and what it was made from, by their paths: all, or about the ``most`` nearest."""
        return self._linked(path, lambda path: [(each.path, each) for each in self._parents(path)], most)

    def descendants(self, path: str) -> dict[str, Artifact]:
        """Return ``path`` and all that was made of it; this reads the documents of all artifacts."""
        return self._linked(path, lambda path: self._children[path])

    def _linked(
        self, path: str, further: Callable[[str], Sequence[tuple[str, Parent]]], most: int | None = None
    ) -> dict[str, Artifact]:
        """Return artifacts from ``path`` on, to which ``further`` leads by recorded parents."""
        linked, left = dict[str, Artifact](), [path]
        for path in left:  # which grows
            if path in linked:
                continue
            artifact, links = self.artifact(path), further(path)
            if links and most and len(left) >= most:
                artifact, links = replace(artifact, fault=f"see mcvrp lineage {path}"), ()
            linked[path] = replace(artifact, links=tuple(self._link(*each) for each in links))
            left += [path for path, _ in links]
        return linked

    def _link(self, path: str, recorded: Parent) -> Link:
        if is_outside(path):  # known by its record alone
            self._read.setdefault(path, Artifact(path, recorded.hash))
        was, now = recorded.hash, self.artifact(recorded.path).hash
        if not (was and now) or was == now:
            return Link(path)
        return Link(path, f"changed since: {recorded.path} was {was[:12]}, and is {now[:12]} now")

    def _parents(self, path: str) -> tuple[Parent, ...]:
        provenance = self.artifact(path).provenance
        return provenance.parents if provenance else ()

    @cached_property
    def _children(self) -> dict[str, list[tuple[str, Parent]]]:
        """Artifacts by the path of a parent, each with this parent as it was."""
        children = defaultdict(list)
        for path in artifacts_at(self.store, ""):
            for parent in self._parents(path):
                children[parent.path].append((path, parent))
        return children

    def _stored(self, path: str) -> Artifact:
        top, _, name = path.partition("/")
        depth, names, keys = _DOCUMENTS.get(top, (0, (), ()))
        if depth != path.count("/") + 1:  # a file of users
            return Artifact(path, hashlib.sha256(self.store.get(path)).hexdigest())
        if top == "driven" and self.store.exists(path):
            taken = (each for each in receipts(self.store, name) if each.days)
            files = (Parent(f"{OUTSIDE}{each.name}", each.sha256) for each in taken)
            return Artifact(path, provenance=Provenance(tuple(files)))
        if top == "training":
            names = tuple(f"{step}/state.json" for step in sorted(self.store.folders(path), reverse=True))
        places = (f"{path}/{name}" for name in names)
        place = next(filter(self.store.exists, places), path)
        if place == path and self.store.exists(path):  # a folder without a document
            return Artifact(path, fault=_NO_RECORD)
        document: Any = self.store.get_json(place)
        digest = document if keys else ""
        for key in keys:
            digest = digest.get(key, "") if isinstance(digest, dict) else ""
        provenance = provenance_in(document)
        return Artifact(path, str(digest), provenance, place, "" if provenance else _UNKNOWN)
