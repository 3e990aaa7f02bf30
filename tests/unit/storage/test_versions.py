"""Documents of a newer version are refused in a sentence, and stay as they are."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import asdict, replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout, versions as schema_versions
from mcvrp.storage.benchmarks import read_part, write_part, write_results
from mcvrp.storage.cities import load_city
from mcvrp.storage.labels.dataset import Dataset, load_labels
from mcvrp.storage.labels.label_files import read_footer
from mcvrp.storage.labels.manifest import read_manifest, rebuild_manifest
from mcvrp.storage.labels.schema import Footer
from mcvrp.storage.models.attention import AttentionCard, attention_card
from mcvrp.storage.models.models import ModelCard, model_card
from mcvrp.storage.models.registry import Pointer, move_champion, pointer, roll_back
from mcvrp.storage.store.store import Store
from mcvrp.storage.training.checkpoints import (
    STATE,
    CheckpointState,
    Moments,
    Origin,
    latest_checkpoint,
    save_checkpoint,
)
from mcvrp.storage.training.metrics import StepMetrics, read_metrics, write_metrics
from mcvrp.storage.versions import BENCHMARK, CITY, LABEL, MANIFEST, Schema, TooNew
from tests.support.datasets import label_path, label_spec, make_dataset
from tests.support.results import ROW, read_results

ORIGIN = Origin("city", "labels", {"dim": 8}, {"lr": 0.1}, "")
ARRAYS = {"w": np.ones(3, np.float32)}
SHARD, PART = label_path(), layout.benchmark_part("b", "hgs-abc", 20, 0, 1)

Reader = Callable[[Store], object]
DOCUMENTS: dict[str, tuple[Schema, list[Reader]]] = {
    layout.city_card("c"): (CITY, [lambda s: load_city(s, "c")]),
    SHARD: (
        LABEL,
        [
            lambda s: read_footer(s, SHARD),
            lambda s: load_labels(s, "d", 20),
            lambda s: rebuild_manifest(Dataset.open(s, "d")),
        ],
    ),
    layout.manifest("d"): (
        MANIFEST,
        [lambda s: read_manifest(s, "d"), lambda s: rebuild_manifest(Dataset.open(s, "d"))],
    ),
    f"{layout.checkpoint_dir('run', 'I', 5)}/{STATE}": (
        schema_versions.CHECKPOINT,
        [lambda s: latest_checkpoint(s, "run", "I")],
    ),
    layout.phase_metrics("run", "I"): (schema_versions.METRICS, [lambda s: read_metrics(s, "run", "I")]),
    layout.model_card("m", 1): (schema_versions.MODEL, [lambda s: model_card(s, "m")]),
    layout.attention_card("a", 20): (schema_versions.ATTENTION, [lambda s: attention_card(s, "a", 20)]),
    layout.champion_move("m", 1): (
        schema_versions.MOVE,
        [
            lambda s: pointer(s, "m", "champion"),
            lambda s: model_card(s, "m", "champion"),
            lambda s: roll_back(s, "m"),
        ],
    ),
    PART: (BENCHMARK, [lambda s: read_part(s, PART)]),
    layout.benchmark_results("b"): (BENCHMARK, [lambda s: read_results(s, "b")]),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store with a document of each kind."""
    store = Store.open(tmp_path_factory.mktemp("store"))
    make_dataset(store, label_spec(largest=20))
    state = CheckpointState("run", "I", 5, 10, 5, ORIGIN, {})
    save_checkpoint(store, state, ARRAYS, Moments(ARRAYS, ARRAYS))
    write_metrics(store, "run", "I", [StepMetrics(1, 8, 0.1, 0.5, 0.2, 0.6, 0.01, 1.0, 100.0, 0.1)])
    card = ModelCard("m", 1, "c", {}, "run", "d", "f", True, {}, 1, "abc")
    store.put_json(layout.model_card("m", 1), asdict(card))
    move_champion(store, "m", 1, Pointer(None))
    attention = AttentionCard("a", 20, "c", {}, {}, 10, 5.0, (), 1.0, "2 cores")
    store.put_json(layout.attention_card("a", 20), asdict(attention))
    write_part(store, PART, [ROW])
    write_results(store, "b", [ROW])
    return store


def with_version(schema: Schema, data: bytes, version: int) -> bytes:
    if not data.startswith(b"PAR1"):
        return json.dumps({**json.loads(data), schema.field: version}).encode()
    table = pq.read_table(io.BytesIO(data))
    metadata: dict[bytes, bytes] = {b"mcvrp_schema_version": str(version).encode()}
    if schema is LABEL:
        footer = Footer.of(table.schema.metadata, "it")
        assert footer is not None
        metadata = replace(footer, schema_version=version).metadata()
    buffer = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(metadata), buffer)
    return buffer.getvalue()


@pytest.mark.parametrize("path", DOCUMENTS)
def test_a_newer_version_is_refused_in_a_sentence(store: Store, path: str) -> None:
    schema, readers = DOCUMENTS[path]
    written = store.get(path)
    readers[0](store)
    newer = with_version(schema, written, schema.version + 1)
    store.put(path, newer)
    named = rf"{path} is {schema.document} of .* by a newer version of mcvrp .*: update mcvrp"
    for read in readers:
        with pytest.raises(TooNew, match=named):
            read(store)
    assert store.get(path) == newer
    store.put(path, written)


@pytest.mark.parametrize("version", ["2", 0, 1.5, True, None])
def test_a_version_is_a_positive_integer(tmp_path_factory: pytest.TempPathFactory, version: object) -> None:
    store = Store.open(tmp_path_factory.mktemp("invalid"))
    store.put_json(layout.city_card("c"), {"schema_version": version})
    with pytest.raises(McvrpError, match=r"city\.json is not a valid city's card \(schema_version is"):
        load_city(store, "c")
    store.put_json(layout.manifest("d"), {"manifest_version": version})
    with pytest.raises(McvrpError, match=r"manifest\.json is not a manifest \(manifest_version is"):
        read_manifest(store, "d")


def test_every_schema_has_a_document_here() -> None:
    schemas = {value for value in vars(schema_versions).values() if isinstance(value, Schema)}
    assert {schema for schema, _ in DOCUMENTS.values()} == schemas
