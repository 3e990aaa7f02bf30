"""Small datasets of labels for tests: real instances, routes by sweep, no solver and no Ray."""

from __future__ import annotations

import dataclasses
import io
import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City, Solution, cost
from mcvrp.storage import layout
from mcvrp.storage.cities import save_city
from mcvrp.storage.labels import dataset, label_files
from mcvrp.storage.labels.label_files import ROW_GROUP, write_labels
from mcvrp.storage.labels.manifest import rebuild_manifest
from mcvrp.storage.labels.schema import Footer, Label, label_table, table_labels
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.spec import LabelSpec, Source
from tests.support.labels import CITY as CITY, label_of


def label_spec(**changes: Any) -> LabelSpec:
    base = {"dataset": "d", "smallest": 20, "largest": 21, "count": 10, "iterations": 5, "shard_rows": 6}
    return LabelSpec.model_validate({**base, **changes})


def sweep_label(n: int, i: int, spec: LabelSpec, city: City = CITY) -> Label:
    """Return instance (n, i) with its customers by angle, a new route when the vehicle is full."""
    instance = InstanceStream(city, spec.seed, spec.split, spec.rules_in(city))(n, i)
    return label_of(city, instance, i, seed=i, seconds=0.01 + 0.001 * i)


def make_dataset(store: Store, spec: LabelSpec, city: City = CITY) -> Source:
    """Write city, spec, shards and manifest of ``spec`` and return its source."""
    save_city(store, "c", city)
    extent = {"smallest": spec.smallest, "largest": spec.largest, "count": spec.count}
    store.put_json(layout.label_spec(spec.dataset), {**spec.identity(city), **extent})
    for n in spec.sizes:
        for k, start in enumerate(range(0, spec.count, spec.shard_rows)):
            rows = range(start, min(start + spec.shard_rows, spec.count))
            path = layout.label_shard(spec.dataset, n, k)
            labels = [sweep_label(n, i, spec, city) for i in rows]
            write_labels(store, path, city, spec.recipe(city).spec_hash, labels)
    rebuild_manifest(store, spec.dataset)
    return Source(spec, city)


def count_footers(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    counts, read = Counter[str](), label_files.read_footer

    def counted(store: Store, path: str) -> Footer:
        counts[path] += 1
        return read(store, path)

    for module in (dataset, label_files):
        monkeypatch.setattr(module, "read_footer", counted)
    return counts


def age(store: Store, dataset: str, seconds: float = 10.0) -> None:
    """Make the shards of ``dataset`` older than its list by more than any clock's resolution."""
    listed = Path(store.uri, layout.shard_list(dataset)).stat().st_mtime_ns
    os.utime(Path(store.uri, layout.shard_list(dataset)), ns=(listed, listed + int(seconds * 1e9)))


def rewritten(data: bytes, change: Callable[[list[Label]], Sequence[Label]]) -> bytes:
    """Return a sound Parquet file with the footer of the one in ``data``, and ``change`` of its labels."""
    table = pq.read_table(pa.BufferReader(data))
    city_id = table.schema.metadata[b"city_id"].decode()
    other = label_table(change(list(table_labels(table, city_id))))
    buffer = io.BytesIO()
    pq.write_table(
        other.replace_schema_metadata(table.schema.metadata),
        buffer,
        compression="zstd",
        row_group_size=ROW_GROUP,
        write_page_checksum=True,
    )
    return buffer.getvalue()


def flipped(data: bytes) -> bytes:
    """Flip a bit of the first page, of the index; the footer is as it was."""
    return data[:60] + bytes([data[60] ^ 1]) + data[61:]


def in_row(row: int, change: Callable[[Label], Label]) -> Callable[[list[Label]], Sequence[Label]]:
    return lambda labels: [change(label) if k == row else label for k, label in enumerate(labels)]


def other_routes(label: Label, routes: Sequence[Sequence[int]]) -> Label:
    solution = Solution.of(routes)
    return dataclasses.replace(label, solution=solution, cost=cost(CITY, solution))


def routes(label: Label) -> list[list[int]]:
    return [list(route) for route in label.solution.routes]


def forgotten_customer(label: Label) -> Label:
    return other_routes(label, [*routes(label)[:-1], routes(label)[-1][1:]])


def dearer(label: Label) -> Label:
    """Return ``label`` at a cost that is wrong in the eighth digit."""
    return dataclasses.replace(label, cost=label.cost * (1 + 1e-8))


def swapped_customers(label: Label) -> Label:
    """Return ``label`` with a customer of one route in another, at the old cost."""
    first, second, *rest = routes(label)
    first[0], second[0] = second[0], first[0]
    return dataclasses.replace(other_routes(label, [first, second, *rest]), cost=label.cost)


def wrong_demand(label: Label) -> Label:
    demands = label.instance.demands.copy()
    demands[3] = demands[3] % 9 + 1
    instance = dataclasses.replace(label.instance, demands=demands)
    return dataclasses.replace(label, instance=instance)


def everything(store: Store, folder: str = "") -> dict[str, bytes]:
    return {path: store.get(path) for path in store.list(folder)}
