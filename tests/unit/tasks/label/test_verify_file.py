"""Proving a label file: what is wrong is named with its row, and no bytes at all get past or crash it."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings, strategies as st

from mcvrp.model.canonical_form import canonical
from mcvrp.model.problem import City, Instance, Solution
from mcvrp.storage import layout
from mcvrp.storage.labels.arrays import LabelArrays
from mcvrp.storage.labels.label_files import label_file, parse_footer
from mcvrp.storage.labels.schema import Footer, Label, label_table
from mcvrp.storage.labels.shards import Shard as ListedShard
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label import verify_file as module
from mcvrp.tasks.label.spec import Source
from mcvrp.tasks.label.verify_file import verify_file
from tests.support.datasets import (
    CITY,
    dearer,
    forgotten_customer,
    in_row,
    label_spec,
    make_dataset,
    other_routes,
    rewritten,
    routes,
    swapped_customers,
    sweep_label,
    wrong_demand,
)

Shard = tuple[bytes, Source]
PATH = layout.label_shard("d", 20, 1)  # rows 6 to 9 of n=20


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> Shard:
    store = Store.open(tmp_path_factory.mktemp("store"))
    source = make_dataset(store, label_spec())
    return store.get(PATH), source


def larger_vehicle(label: Label) -> Label:
    instance = dataclasses.replace(label.instance, capacity=label.instance.capacity + 1)
    return dataclasses.replace(label, instance=instance)


def customer_too_few(label: Label) -> Label:
    instance = Instance(CITY.city_id, label.instance.ids[1:], label.instance.demands[1:], 30)
    return dataclasses.replace(label, instance=instance)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (dearer, "cost .* but its routes cost"),
        (swapped_customers, "cost .* but its routes cost|exceeds the capacity"),
        (wrong_demand, "demands are not those|exceeds the capacity"),
        (
            lambda label: dataclasses.replace(sweep_label(20, 77, label_spec()), index=label.index),
            "customers are not those of the instance",
        ),
        (larger_vehicle, "it has capacity"),
        (lambda label: other_routes(label, [routes(label)[0][::-1], *routes(label)[1:]]), "canonical form"),
        (lambda label: other_routes(label, [*routes(label)[1:], routes(label)[0]]), "canonical form"),
        (forgotten_customer, "do not serve customer"),
        (
            lambda label: dataclasses.replace(label, solution=Solution(((2**31, 5), *label.solution.routes))),
            "do not serve customer",
        ),
        (customer_too_few, "does not have 20 ids"),
        (lambda label: dataclasses.replace(label, index=99), "its index 99 is not in the footer"),
        (lambda label: dataclasses.replace(label, runtime=float("nan")), "runtime nan"),
    ],
)
def test_a_wrong_row_is_named(shard: Shard, change: Callable[[Label], Label], what: str) -> None:
    data, source = shard
    report = verify_file(rewritten(data, in_row(2, change)), PATH, source)
    (fault,) = (fault for fault in report.faults if fault.row is not None)
    assert (fault.path, fault.n, fault.row) == (PATH, 20, 2)
    assert fault.i in (8, 99)
    assert re.search(what, fault.what)
    assert report.good_rows()["index"].to_pylist() == [6, 7, 9]
    assert str(fault).startswith(f"{PATH}, row 2 (instance n=20, i=")


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda rows: rows[:-1], "3 rows, its footer says 4"),
        (lambda rows: [*rows, rows[0]], "5 rows, its footer says 4"),
    ],
)
def test_a_file_with_other_rows_than_promised_is_named(
    shard: Shard, change: Callable[[list[Label]], list[Label]], what: str
) -> None:
    data, source = shard
    report = verify_file(rewritten(data, change), PATH, source)
    assert what in [fault.what for fault in report.faults]
    index = report.good_rows()["index"].to_pylist()
    assert len(set(index)) == len(index) >= 3


def test_other_routes_than_hashed_are_seen(shard: Shard) -> None:
    data, source = shard
    report = verify_file(with_footer(data, content="0" * 32), PATH, source)
    (fault,) = report.faults
    assert fault.what == "its rows are valid, but have another hash than its footer"
    assert report.good_rows().num_rows == 0


def with_footer(data: bytes, **changes: Any) -> bytes:
    table = pq.read_table(pa.BufferReader(data))
    footer = Footer.of(table.schema.metadata, "it")
    assert footer
    return written(table.replace_schema_metadata(dataclasses.replace(footer, **changes).metadata()))


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"spec_hash": "0123"}, "made from spec 0123"),
        ({"city_id": "0123"}, "labels of city 0123"),
        ({"n": 21}, "not the path of a shard of n=21"),
        ({"row_start": 0}, "rows 0 to 10, expected 6 to 12"),
        ({"row_stop": 99}, "the spec has n=20 to 21, 10 rows each"),
        ({"row_stop": -1}, "not a file of labels"),
        ({"row_stop": 99999999999}, "not a file of labels"),
        ({"absent": (99,)}, "absent rows are not among 6 to 10"),
        ({"absent": ("x",)}, "not a file of labels"),
        ({"content": "no hash"}, "not a file of labels"),
        ({"schema_version": 77}, "schema version 77"),
    ],
)
def test_a_footer_that_lies_is_named(shard: Shard, changes: dict[str, Any], what: str) -> None:
    data, source = shard
    assert any(what in fault.what for fault in verify_file(with_footer(data, **changes), PATH, source).faults)


def written(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "change",
    [
        lambda data: b"",
        lambda data: data[:-1],
        lambda data: data[: len(data) // 2],
        lambda data: b"PAR1" + bytes(len(data)) + b"PAR1",
        lambda data: np.random.default_rng(0).bytes(len(data)),
        lambda data: written(pa.table({"a": [1]})),
        lambda data: written(pq.read_table(pa.BufferReader(data)).drop_columns(["cpu"])),
    ],
)
def test_garbage_is_a_fault(shard: Shard, change: Callable[[bytes], bytes]) -> None:
    data, source = shard
    report = verify_file(change(data), PATH, source)
    assert len(report.faults) == 1
    assert report.good_rows().num_rows == 0


def listed(data: bytes) -> ListedShard:
    return ListedShard(PATH, parse_footer(data, PATH), len(data), 0.0, hashlib.sha256(data).hexdigest())


def test_a_shard_that_was_extended_after_its_list_is_right(shard: Shard) -> None:
    """A run that is killed, or still running, has not listed the shards that it has replaced."""
    data, source = shard
    some = pq.read_table(pa.BufferReader(data)).slice(0, 2)
    earlier, _ = label_file(CITY, source.recipe.spec_hash, 20, some)
    assert verify_file(data, PATH, source, listed(earlier)).faults == []


@settings(max_examples=300)
@given(place=st.floats(0, 1, exclude_max=True), mask=st.integers(1, 255))
@example(place=0.5453603270695424, mask=12)  # in pyarrow's own schema: items of a list have another name
def test_no_flipped_byte_gets_past(shard: Shard, place: float, mask: int) -> None:
    """With the checksum every flip is found; without it, what passes means what it meant."""
    data, source = shard
    corrupt = bytearray(data)
    corrupt[int(place * len(data))] ^= mask
    assert verify_file(bytes(corrupt), PATH, source, listed(data)).faults
    report = verify_file(bytes(corrupt), PATH, source)
    good = report.good_rows()
    original = pq.read_table(pa.BufferReader(data))
    if not report.faults:
        assert good.num_rows == original.num_rows
    # By value: a flip in pyarrow's own schema may call the items of a list otherwise.
    rows = {row["index"]: row for row in original.to_pylist()}
    assert good.to_pylist() == [rows[i] for i in good["index"].to_pylist()]


def test_a_row_group_that_cannot_be_read_costs_its_rows_only(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A corrupt page loses its row group: the rows of others are kept, and the lost ones named."""
    monkeypatch.setattr("mcvrp.storage.labels.label_files.ROW_GROUP", 4)
    source = make_dataset(store, label_spec(count=12, shard_rows=12, largest=20))
    path = layout.label_shard("d", 20, 0)
    data = bytearray(store.get(path))
    column = pq.ParquetFile(pa.BufferReader(bytes(data))).metadata.row_group(1).column(1)
    data[column.data_page_offset + column.total_compressed_size // 2] ^= 255
    report = verify_file(bytes(data), path, source)
    (fault,) = report.faults
    assert "rows 4 to 7 cannot be read" in fault.what
    assert (fault.row, fault.i) == (4, 4)
    assert report.good_rows()["index"].to_pylist() == [0, 1, 2, 3, 8, 9, 10, 11]


def test_faults_are_counted_where_there_are_too_many_to_list(
    shard: Shard, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, source = shard
    monkeypatch.setattr(module, "_MOST_FAULTS", 2)
    report = verify_file(rewritten(data, lambda rows: [dearer(row) for row in rows]), PATH, source)
    assert [fault.what for fault in report.faults[2:]] == ["2 more faults"]


@pytest.mark.parametrize("asymmetric", [False, True])
def test_the_fast_check_of_the_form_agrees_with_the_definition(asymmetric: bool) -> None:
    """Rows whose routes are turned or exchanged at random: those that `canonical` changes are found."""
    city = CITY
    if asymmetric:
        matrix = CITY.costs(np.arange(61))
        city = City(CITY.xy, matrix + np.triu(np.ones_like(matrix), 1))
    rng = np.random.default_rng(1)
    labels = []
    for i in range(200):
        label = sweep_label(20, i, label_spec())
        mixed = [route[::-1] if rng.random() < 0.1 else route for route in label.solution.routes]
        if rng.random() < 0.3:
            rng.shuffle(mixed)  # type: ignore[arg-type]
        labels.append(other_routes(label, mixed))
    wrong = [k for k, label in enumerate(labels) if canonical(city, label.solution) != label.solution]
    assert 0 < len(wrong) < 200
    assert module._not_canonical(city, LabelArrays.of(label_table(labels), 20)) == wrong
