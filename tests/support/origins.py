"""Artifacts of a store, and what their documents say they were made from."""

from __future__ import annotations

from mcvrp.storage.models.registry import ALIASES
from mcvrp.storage.provenance import Provenance, provenance_in
from mcvrp.storage.store.store import Store

# Folders in the path of an artifact, by top folder.
_DEPTHS = {
    **dict.fromkeys(("cities", "labels", "benchmarks", "solutions"), 2),
    **dict.fromkeys(("training", "models", "attention", "nights"), 3),
}


def artifacts(store: Store) -> set[str]:
    """Return the folders of all artifacts; aliases of models are none."""
    paths = (path.split("/") for path in store.list(""))
    folders = {"/".join(p[: _DEPTHS[p[0]]]) for p in paths if p[0] in _DEPTHS and len(p) > _DEPTHS[p[0]]}
    return {folder for folder in folders if not (folder.startswith("models/") and folder.endswith(ALIASES))}


def recorded(store: Store, path: str) -> Provenance:
    """Return parents and makers in all documents of the artifact at ``path``."""
    documents = [store.get_json(each) for each in store.list(path) if each.endswith(".json")]
    found = [provenance for document in documents if (provenance := provenance_in(document))]
    return Provenance(
        tuple(parent for each in found for parent in each.parents),
        tuple(maker for each in found for maker in each.makers),
    )


def made_from(store: Store, path: str) -> set[str]:
    """Return all that the artifact at ``path`` was made from, up to files of users."""
    reached, left = set[str](), [path]
    for each in left:  # which grows
        parents = {parent.path for parent in recorded(store, each).parents} if ":" not in each else set()
        left += parents - reached
        reached |= parents
    return reached
