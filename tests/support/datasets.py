"""Small datasets of labels for tests: real instances, routes by sweep, no solver and no Ray."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City, Solution, cost
from mcvrp.storage import layout
from mcvrp.storage.cities import save_city
from mcvrp.storage.labels import dataset, label_files
from mcvrp.storage.labels.dataset import Dataset, list_files
from mcvrp.storage.labels.label_files import checksummed, label_file, write_labels
from mcvrp.storage.labels.manifest import rebuild_manifest
from mcvrp.storage.labels.schema import Footer, Label, label_table, table_labels
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.card import write_card
from mcvrp.tasks.label.plan import missing_units
from mcvrp.tasks.label.spec import LabelSpec, Source, SpecDocument
from tests.support.labels import CITY as CITY, N, label_of, some_label


def label_spec(**changes: Any) -> LabelSpec:
    base = {"dataset": "d", "smallest": 20, "largest": 21, "count": 10, "iterations": 5, "shard_rows": 6}
    return LabelSpec.model_validate({**base, **changes})


def sweep_label(n: int, i: int, spec: LabelSpec, city: City = CITY) -> Label:
    """Return instance (n, i) with its customers by angle, a new route when the vehicle is full."""
    instance = InstanceStream(city, spec.seed, spec.split, spec.rules_in(city))(n, i)
    return label_of(city, instance, i, seed=i, seconds=0.01 + 0.001 * i)


def label_path(k: int = 0, n: int = 20, dataset: str = "d") -> str:
    """Return the path of the ``k``-th file of the default `label_spec`: rows 0 to 5, or 6 to 9."""
    return layout.label_file(dataset, n, *((0, 6), (6, 10))[k])


def make_dataset(store: Store, spec: LabelSpec, city: City = CITY) -> Source:
    """Write city, spec, files and manifest of ``spec`` and return its source."""
    save_city(store, "c", city)
    source = Source(spec, city)
    document = SpecDocument.read(store, spec.dataset).extended(source)
    store.put_json(layout.label_spec(spec.dataset), document.fields)
    for unit in missing_units(list_files(store, spec.dataset), spec, document):
        labels = [sweep_label(unit.n, i, spec, city) for i in range(unit.start, unit.stop)]
        write_labels(store, unit.path(spec.dataset), city, source.recipe.spec_hash, labels)
    rebuild_manifest(Dataset.open(store, spec.dataset))
    return source


def write_card_of(store: Store, dataset: str, city: City = CITY) -> None:
    """Write the card of ``dataset``, whose manifest is up to date."""
    files = Dataset.open(store, dataset).label_files
    write_card(store, city, dataset, store.get_json(layout.manifest(dataset)), files)


def all_labels(store: Store, name: str) -> list[Label]:
    """Return the labels of the dataset ``name``, by size and row."""
    labels = Dataset.open(store, name)
    tables = [table for n in labels.sizes() for table in labels.read_rows(n)]
    city_id = labels.label_files[0].footer.city_id
    return [label for table in tables for label in table_labels(table, city_id)]


def write_rows(
    store: Store, dataset: str, n: int, table: pa.Table, absent: Mapping[int, str] | None = None
) -> str:
    """Write ``table`` and ``absent`` rows to the file of their rows; return its path."""
    data = label_file(CITY, "spec", n, table, absent)
    footer = label_files.parse_footer(data, "the new file")
    path = layout.label_file(dataset, n, footer.row_start, footer.row_stop)
    store.put(path, data)
    return path


def fill(store: Store, *bounds: int, dataset: str = "d", runtime: float = 0.1) -> list[str]:
    """Write files of `some_label` from each of ``bounds`` to the next; return their paths."""
    parts = [[some_label(i, runtime=runtime) for i in range(*rows)] for rows in pairwise(bounds)]
    return [write_rows(store, dataset, N, label_table(part)) for part in parts]


def count_footers(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    counts, read = Counter[str](), label_files.read_footer

    def counted(store: Store, path: str) -> Footer:
        counts[path] += 1
        return read(store, path)

    for module in (dataset, label_files):
        monkeypatch.setattr(module, "read_footer", counted)
    return counts


def rewritten(data: bytes, change: Callable[[list[Label]], Sequence[Label]]) -> bytes:
    """Return a sound Parquet file with the footer of the one in ``data``, and ``change`` of its labels."""
    table = pq.read_table(pa.BufferReader(data))
    city_id = table.schema.metadata[b"city_id"].decode()
    other = label_table(change(list(table_labels(table, city_id))))
    return checksummed(other.replace_schema_metadata(table.schema.metadata))


def flipped(data: bytes) -> bytes:
    """Flip a bit of the first page, of the index; the footer is as it was."""
    return data[:60] + bytes([data[60] ^ 1]) + data[61:]


def in_row(row: int, change: Callable[[Label], Label]) -> Callable[[list[Label]], Sequence[Label]]:
    return lambda labels: [change(label) if k == row else label for k, label in enumerate(labels)]


def other_routes(label: Label, routes: Sequence[Sequence[int]], city: City = CITY) -> Label:
    solution = Solution.of(routes)
    return dataclasses.replace(label, solution=solution, cost=cost(city, solution))


def routes(label: Label) -> list[list[int]]:
    return [list(route) for route in label.solution.routes]


def forgotten_customer(label: Label) -> Label:
    return other_routes(label, [*routes(label)[:-1], routes(label)[-1][1:]])


def dearer(label: Label) -> Label:
    """Return ``label`` at a cost that is wrong in the eighth digit."""
    return dataclasses.replace(label, cost=label.cost * (1 + 1e-8))


def wrong_demand(label: Label) -> Label:
    demands = label.instance.demands.copy()
    demands[3] = demands[3] % 9 + 1
    instance = dataclasses.replace(label.instance, demands=demands)
    return dataclasses.replace(label, instance=instance)


def everything(store: Store, folder: str = "") -> dict[str, bytes]:
    return {path: store.get(path) for path in store.list(folder)}
