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
from mcvrp.storage.lineage import Lineage, artifacts_at, tree_text
from mcvrp.storage.provenance import OUTSIDE, is_outside
from mcvrp.storage.store.store import Store

_SPEC = "https://openlineage.io/spec"


def lineage(options: argparse.Namespace) -> Outcome:
    """Print the trees of an artifact, or of all in a folder of several, such as models/NAME."""
    graph = Lineage(reading(options))
    path = located(graph.store, options.path, "lineage")
    if isinstance(path, Outcome):
        return path
    trees = [graph.ancestors(artifact) for artifact in artifacts_at(graph.store, path) if path]
    if not trees:
        raise McvrpError(f"{graph.store.url(path)} is no artifact: name one, as mcvrp inspect lists them")
    earlier = {each.path for tree in trees for branch in tree.branches for each in branch.all()}
    trees = [tree for tree in trees if tree.path not in earlier]  # those are in its trees
    below = [graph.descendants(tree.path) for tree in trees]
    document = [{"made_from": each, "made_of_it": made} for each, made in zip(trees, below, strict=True)]
    texts = [tree_text(tree) for tree in trees]
    texts += [tree_text(tree, f"made of {tree.path}") for tree in below if tree.branches]
    if options.openlineage:
        paths = dict.fromkeys(each.path for tree in (*trees, *below) for each in tree.all())
        lines = [f"{json.dumps(event)}\n" for event in openlineage(graph, paths)]
        write_local(Path(options.openlineage), "".join(lines).encode(), "--openlineage")
        texts.append(f"{options.openlineage}: {len(lines):,} OpenLineage events")
    return Outcome({"artifacts": plain(document)}, "\n\n".join(texts))


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
