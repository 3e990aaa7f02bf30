"""Documents of other versions: newer ones are refused in a sentence, older ones are read."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout, versions as schema_versions
from mcvrp.storage.benchmarks import (
    read_part,
    read_results,
    write_part,
    write_results,
)
from mcvrp.storage.cities import load_city
from mcvrp.storage.labels.dataset import load_labels
from mcvrp.storage.labels.label_files import read_footer
from mcvrp.storage.labels.manifest import read_manifest, rebuild_manifest
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
from mcvrp.storage.versions import Schema, TooNew
from tests.support.datasets import label_spec, make_dataset
from tests.support.results import ROW

ORIGIN = Origin("city", "labels", {"dim": 8}, {"lr": 0.1}, "")
ARRAYS = {"w": np.ones(3, np.float32)}
SHARD, PART = layout.label_shard("d", 20, 0), layout.benchmark_part("b", "hgs-abc", 20, 0, 1)
RESULTS = layout.benchmark_results("b")


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Store:
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


def in_json(field: str) -> Callable[[bytes, int | None], bytes]:
    """Return what gives a JSON document another version, or none."""

    def change(data: bytes, version: int | None) -> bytes:
        document = json.loads(data)
        document.pop(field, None)
        return json.dumps(document if version is None else {**document, field: version}).encode()

    return change


def in_table(data: bytes, version: int | None) -> bytes:
    """Give a Parquet file another version, or none."""
    table = pq.read_table(pa.BufferReader(data))
    stamp = {} if version is None else {"mcvrp_schema_version": str(version)}
    buffer = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(stamp or None), buffer)
    return buffer.getvalue()


def in_footer(data: bytes, version: int | None) -> bytes:
    """Give a file of labels another version."""
    from mcvrp.storage.labels.schema import Footer

    table = pq.read_table(pa.BufferReader(data))
    footer = Footer.of(table.schema.metadata, "it")
    assert footer is not None
    assert version is not None
    buffer = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(replace(footer, schema_version=version).metadata()), buffer)
    return buffer.getvalue()


@dataclass(frozen=True)
class Document:
    """A kind of document, where there is one, how it is given another version, and all that reads it."""

    schema: Schema
    path: str
    change: Callable[[bytes, int | None], bytes]
    readers: tuple[Callable[[Store], object], ...]


DOCUMENTS = (
    Document(
        schema_versions.CITY, layout.city_card("c"), in_json("schema_version"), (lambda s: load_city(s, "c"),)
    ),
    Document(
        schema_versions.LABEL,
        SHARD,
        in_footer,
        (
            lambda s: read_footer(s, SHARD),
            lambda s: load_labels(s, "d", 20),
            lambda s: rebuild_manifest(s, "d"),
        ),
    ),
    Document(
        schema_versions.MANIFEST,
        layout.manifest("d"),
        in_json("manifest_version"),
        (lambda s: read_manifest(s, "d"), lambda s: rebuild_manifest(s, "d")),
    ),
    Document(
        schema_versions.CHECKPOINT,
        f"{layout.checkpoint_dir('run', 'I', 5)}/{STATE}",
        in_json("format"),
        (lambda s: latest_checkpoint(s, "run", "I"),),
    ),
    Document(
        schema_versions.METRICS,
        layout.phase_metrics("run", "I"),
        in_table,
        (lambda s: read_metrics(s, "run", "I"),),
    ),
    Document(
        schema_versions.MODEL, layout.model_card("m", 1), in_json("format"), (lambda s: model_card(s, "m"),)
    ),
    Document(
        schema_versions.ATTENTION,
        layout.attention_card("a", 20),
        in_json("format"),
        (lambda s: attention_card(s, "a", 20),),
    ),
    Document(
        schema_versions.ALIAS,
        layout.model_alias("m", "champion"),
        in_json("schema_version"),
        (
            lambda s: pointer(s, "m", "champion"),
            lambda s: model_card(s, "m", "champion"),
            lambda s: roll_back(s, "m"),
        ),
    ),
    Document(schema_versions.BENCHMARK, PART, in_table, (lambda s: read_part(s, PART),)),
    Document(schema_versions.BENCHMARK, RESULTS, in_table, (lambda s: read_results(s, "b"),)),
)
BY_PATH = {document.path: document for document in DOCUMENTS}


@pytest.fixture(params=BY_PATH)
def document(request: pytest.FixtureRequest) -> Document:
    return BY_PATH[request.param]


@pytest.fixture
def store(full: Store, document: Document) -> Iterator[Store]:
    """The full store; what a test does to the document is undone."""
    before = full.get(document.path)
    yield full
    full.put(document.path, before)


def test_a_newer_version_is_refused_in_a_sentence(store: Store, document: Document) -> None:
    """Readers and writers are told what it is, where, and what to do; nothing is changed."""
    newer = document.change(store.get(document.path), document.schema.version + 1)
    store.put(document.path, newer)
    for read in document.readers:
        with pytest.raises(TooNew) as caught:
            read(store)
        for said in (
            store.url(document.path),
            document.schema.document,
            "newer version of mcvrp",
            "update mcvrp",
        ):
            assert said in str(caught.value)
    assert store.get(document.path) == newer


def test_the_version_that_is_written_is_read(store: Store, document: Document) -> None:
    """And so is one that was written before documents named their version, where that was the first."""
    written = store.get(document.path)
    for read in document.readers[:1]:
        read(store)
    assert document.change(written, document.schema.version) is not None
    if document.change is not in_footer:
        store.put(document.path, document.change(written, None))
        document.readers[0](store)


def test_a_version_that_is_none_is_no_document(store: Store, document: Document) -> None:
    """Text, zero and fractions: said as of any other corrupt file, or passed over where corrupt files are."""
    if document.change in (in_table, in_footer):
        return
    for version in ("2", 0, 1.5, True, None):
        data = {**json.loads(store.get(document.path)), document.schema.field: version}
        store.put(document.path, json.dumps(data).encode())
        if document.schema is schema_versions.CHECKPOINT:
            assert document.readers[0](store) is None  # corrupt ones are none
        else:
            with pytest.raises(McvrpError, match=re.escape(store.url(document.path))):
                document.readers[0](store)


def test_the_table_of_versions_is_the_code_s() -> None:
    """The table in the module's first lines is what is written."""
    schemas = [value for value in vars(schema_versions).values() if isinstance(value, Schema)]
    rows = [line.split("|") for line in (schema_versions.__doc__ or "").splitlines() if line.startswith("|")]
    assert sorted(int(row[3]) for row in rows[2:]) == sorted(schema.version for schema in schemas)
    assert {document.schema for document in DOCUMENTS} == set(schemas)
