"""Proving a label file: what is wrong is named with its row, and no bytes at all get past or crash it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings, strategies as st

from mcvrp.model.problem import Instance, Solution
from mcvrp.storage.labels.label_files import checksummed
from mcvrp.storage.labels.schema import Footer, Label
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.spec import Source
from mcvrp.tasks.label.verify import FileFault, verify_file
from tests.support.datasets import (
    CITY,
    dearer,
    in_row,
    label_path,
    label_spec,
    make_dataset,
    rewritten,
    sweep_label,
    wrong_demand,
)

File = tuple[bytes, Source]
PATH = label_path(1)  # rows 6 to 9 of n=20


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> File:
    store = Store.open(tmp_path_factory.mktemp("store"))
    source = make_dataset(store, label_spec())
    return store.get(PATH), source


def fault(data: bytes, source: Source) -> str:
    """Return what is wrong with the file at PATH whose bytes are ``data``, "" if nothing is."""
    result = verify_file(data, PATH, source)
    return result.what if isinstance(result, FileFault) else ""


def removed(data: bytes, source: Source) -> bool:
    result = verify_file(data, PATH, source)
    return isinstance(result, FileFault) and not result.misplaced


def larger_vehicle(label: Label) -> Label:
    instance = dataclasses.replace(label.instance, capacity=label.instance.capacity + 1)
    return dataclasses.replace(label, instance=instance)


def customer_too_few(label: Label) -> Label:
    instance = Instance(CITY.city_id, label.instance.ids[1:], label.instance.demands[1:], 30)
    return dataclasses.replace(label, instance=instance)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (dearer, "has cost .* but its routes cost .*, at i=8 of n=20"),
        (wrong_demand, "has (another instance|a route whose load exceeds)"),
        (
            lambda label: dataclasses.replace(sweep_label(20, 77, label_spec()), index=label.index),
            "has another instance than that of the spec, at i=8 of n=20",
        ),
        (larger_vehicle, "has another instance than"),
        (
            lambda label: dataclasses.replace(label, solution=Solution(((2**31, 5), *label.solution.routes))),
            "has routes that do not serve each customer",
        ),
        (customer_too_few, "does not have 20 ids"),
        (lambda label: dataclasses.replace(label, index=99), "has not the rows that its footer declares"),
    ],
)
def test_a_wrong_row_is_named(file: File, change: Callable[[Label], Label], what: str) -> None:
    data, source = file
    assert re.search(what, fault(rewritten(data, in_row(2, change)), source))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda rows: rows[:-1], "3 rows, its footer says 4"),
        (lambda rows: [*rows, rows[0]], "5 rows, its footer says 4"),
        (lambda rows: rows[::-1], "has not the rows that its footer declares"),
    ],
)
def test_a_file_with_other_rows_than_promised_is_named(
    file: File, change: Callable[[list[Label]], list[Label]], what: str
) -> None:
    data, source = file
    assert what in fault(rewritten(data, change), source)


def with_footer(data: bytes, **changes: Any) -> bytes:
    table = pq.read_table(pa.BufferReader(data))
    footer = Footer.of(table.schema.metadata, "it")
    assert footer
    return checksummed(table.replace_schema_metadata(dataclasses.replace(footer, **changes).metadata()))


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"spec_hash": "0123"}, "made from spec 0123"),
        ({"city_id": "0123"}, "labels of city 0123"),
        ({"n": 21}, "other rows than its name says"),
        ({"row_start": 0}, "4 rows, its footer says 10"),
        ({"row_stop": 99}, "4 rows, its footer says 93"),
        ({"absent": {99: ""}}, "its footer says 3"),
        ({"absent": {"x": ""}}, "not a label file"),
        ({"content": "0" * 32}, "other rows than its footer declares"),
        ({"schema_version": 77}, "schema version 77"),
    ],
)
def test_a_footer_that_lies_is_named(file: File, changes: dict[str, Any], what: str) -> None:
    data, source = file
    assert what in fault(with_footer(data, **changes), source)


@pytest.mark.parametrize("changes", [{"schema_version": 4}, {"n": 21}, {"city_id": "0123"}])
def test_a_whole_file_of_another_place_is_never_removed(file: File, changes: dict[str, Any]) -> None:
    data, source = file
    assert not removed(with_footer(data, **changes), source)


def test_rows_beyond_the_spec_are_named(file: File) -> None:
    data, source = file
    smaller = Source(source.spec.model_copy(update={"count": 8}), source.city)
    assert "the spec n=20 to 21, 8 rows each" in fault(data, smaller)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: b"PAR1" + bytes(len(data)) + b"PAR1",
        lambda data: checksummed(pa.table({"a": [1]})),
        lambda data: checksummed(pq.read_table(pa.BufferReader(data)).drop_columns(["cpu"])),
    ],
)
def test_garbage_is_a_fault(file: File, change: Callable[[bytes], bytes]) -> None:
    data, source = file
    assert removed(change(data), source)


@settings(max_examples=300)
@given(place=st.floats(0, 1, exclude_max=True), mask=st.integers(1, 255))
@example(place=0.5453603270695424, mask=12)  # in pyarrow's own schema: items of a list have another name
def test_no_flipped_byte_gets_past(file: File, place: float, mask: int) -> None:
    """Nor in the statistics by which other readers skip rows."""
    data, source = file
    corrupt = bytearray(data)
    corrupt[int(place * len(data))] ^= mask
    assert not fault(data, source)
    assert fault(bytes(corrupt), source)
