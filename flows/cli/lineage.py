"""`mcvrp lineage`: what an artifact was made from, what was made of it, and both as OpenLineage events."""

from __future__ import annotations

import argparse
import json
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mcvrp.flows.cli.inspect import located, write_local
from mcvrp.flows.cli.output import Outcome, plain, reading
from mcvrp.model.errors import McvrpError
from mcvrp.storage.lineage import Branch, Lineage, artifact_path, artifacts_below, tree_text
from mcvrp.storage.provenance import OUTSIDE, is_outside, provenance_in
from mcvrp.storage.store.store import Store

_SPEC = "https://openlineage.io/spec"
_DOCUMENTS = ("summary.json", "model.json")  # of a local folder: a routed day, an exported model


def lineage(options: argparse.Namespace) -> Outcome:
    """Print the trees of the artifact, or of all artifacts in a folder of several, such as models/NAME."""
    graph = Lineage(reading(options))
    if local := _local(options.path):
        trees, below = [_of_folder(graph, local)], dict[str, Branch]()
    else:
        path = located(graph.store, options.path, "lineage")
        if isinstance(path, Outcome):
            return path
        trees = [graph.ancestors(artifact) for artifact in _artifacts(graph, path)]
        below = {tree.path: graph.descendants(tree.path) for tree in trees}
    document = [{"made_from": plain(tree), "made_of_it": plain(below.get(tree.path))} for tree in trees]
    texts = [tree_text(tree) for tree in trees]
    texts += [tree_text(tree, f"made of {path}") for path, tree in below.items() if tree.branches]
    if options.openlineage:
        paths = dict.fromkeys(path for tree in (*trees, *below.values()) for path in tree.paths())
        lines = [f"{json.dumps(event)}\n" for event in openlineage(graph, paths)]
        write_local(Path(options.openlineage), "".join(lines).encode(), "--openlineage")
        texts.append(f"{options.openlineage}: {len(lines):,} OpenLineage events")
    return Outcome({"artifacts": document}, "\n\n".join(texts))


def _artifacts(graph: Lineage, path: str) -> list[str]:
    """Return the artifacts at ``path`` without those that another of them was made from."""
    if artifact := artifact_path(path):
        return [artifact]
    below = artifacts_below(graph.store, path) if path else []
    if not below:
        raise McvrpError(
            f"{graph.store.url(path)} has no lineage: name an artifact, as mcvrp inspect lists them"
        )
    earlier = {each for top in below for branch in graph.ancestors(top).branches for each in branch.paths()}
    return [each for each in below if each not in earlier]


def _local(path: str) -> Path | None:
    """Return the local folder ``path`` if `mcvrp solve` or `mcvrp models export` wrote it."""
    folder = Path(path).expanduser()
    return folder if any((folder / name).is_file() for name in _DOCUMENTS) else None


def _of_folder(graph: Lineage, folder: Path) -> Branch:
    """Return the tree of a local folder, whose parents are in the store."""
    local = Store.at(folder)
    name = next(name for name in _DOCUMENTS if local.exists(name))
    provenance = provenance_in(local.get_json(name))
    if provenance is None:
        raise McvrpError(f"{local.url(name)} has no provenance: run mcvrp solve or models export again")
    return graph.tree(f"{OUTSIDE}{folder}", provenance)


def openlineage(graph: Lineage, paths: Iterable[str]) -> list[dict[str, Any]]:
    """Return a COMPLETE event for each of the artifacts ``paths`` whose makers are known."""
    events = []
    for path in paths:
        artifact = None if is_outside(path) else graph.artifact(path)
        if artifact is None or artifact.provenance is None or not artifact.provenance.makers:
            continue
        release = artifact.provenance.makers[-1].release
        producer = f"urn:mcvrp:{release}"
        engine = {"name": "mcvrp", "version": release} | _facet(producer, "1-1-1", "ProcessingEngineRunFacet")
        run = uuid.uuid5(uuid.NAMESPACE_URL, f"{graph.store.url(path)}#{artifact.hash}")
        parents = artifact.provenance.parents
        events.append(
            {
                "eventType": "COMPLETE",
                "eventTime": datetime.fromtimestamp(artifact.made, UTC).isoformat(),
                "run": {"runId": str(run), "facets": {"processing_engine": engine}},
                "job": {"namespace": "mcvrp", "name": path},
                "inputs": [_dataset(graph.store, each.path, each.hash, producer) for each in parents],
                "outputs": [_dataset(graph.store, path, artifact.hash, producer)],
                "producer": producer,
                "schemaURL": f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent",
            }
        )
    return events


def _facet(producer: str, version: str, name: str) -> dict[str, str]:
    return {"_producer": producer, "_schemaURL": f"{_SPEC}/facets/{version}/{name}.json#/$defs/{name}"}


def _dataset(store: Store, path: str, digest: str, producer: str) -> dict[str, Any]:
    """Return an artifact as a dataset of OpenLineage, by its names for buckets and files."""
    scheme, _, rest = store.url(path).rpartition("://")
    bucket, _, key = rest.partition("/")
    namespace, name = (f"{scheme}://{bucket}", key) if scheme else ("file", rest)
    if is_outside(path):
        namespace, name = "file", path.removeprefix(OUTSIDE)
    version = {"datasetVersion": digest} | _facet(producer, "1-0-1", "DatasetVersionDatasetFacet")
    return {"namespace": namespace, "name": name, **({"facets": {"version": version}} if digest else {})}
