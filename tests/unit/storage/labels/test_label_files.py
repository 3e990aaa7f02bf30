"""Label files: what goes in comes out, what is wrong never goes in, and what is not one is named."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City, Instance, Solution, cost
from mcvrp.storage import layout
from mcvrp.storage.labels.arrays import LabelArrays
from mcvrp.storage.labels.checks import row_faults
from mcvrp.storage.labels.dataset import Dataset, load_labels
from mcvrp.storage.labels.label_files import (
    CorruptFile,
    parse_footer,
    parse_table,
    read_footer,
    read_table,
    write_labels,
    write_table,
)
from mcvrp.storage.labels.manifest import rebuild_manifest
from mcvrp.storage.labels.schema import SCHEMA, Label, label_table, table_labels
from mcvrp.storage.labels.shards import ShardList
from mcvrp.storage.store.store import Store
from tests.support.labels import CITY, N, some_label


def with_routes(label: Label, routes: list[list[int]], price: float | None = None) -> Label:
    """``label`` with other routes, at their cost or at ``price``."""
    solution = Solution.of(routes)
    return dataclasses.replace(
        label, solution=solution, cost=cost(CITY, solution) if price is None else price
    )


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path)


def fill(store: Store, parts: list[tuple[int, int]], dataset: str = "d", n: int = N) -> None:
    """Write the rows of ``parts`` as shards 0, 1, ..."""
    for k, (start, stop) in enumerate(parts):
        rows = [some_label(i, n, runtime=k) for i in range(start, stop)]
        write_labels(store, layout.label_shard(dataset, n, k), CITY, "spec", rows)


def test_labels_come_back(store: Store) -> None:
    """Every field of every label survives, in order."""
    path = layout.label_shard("d", N, 0)
    labels = [some_label(i) for i in range(7)]
    write_labels(store, path, CITY, "spec", labels)
    back = list(table_labels(read_table(store, path), CITY.city_id))
    for before, after in zip(labels, back, strict=True):
        assert after.instance.ids.tolist() == before.instance.ids.tolist()
        assert after.instance.demands.tolist() == before.instance.demands.tolist()
        assert after.instance.capacity == before.instance.capacity
        assert dataclasses.replace(after, instance=before.instance) == before


def test_the_file_says_what_it_is(store: Store, tmp_path: Path) -> None:
    """Types are those of the schema, the footer names spec, city and rows, compression is zstd."""
    path = layout.label_shard("d", N, 0)
    write_labels(store, path, CITY, "0123", [some_label(i) for i in range(3, 8)])
    footer = read_footer(store, path)
    assert (footer.spec_hash, footer.city_id, footer.n) == ("0123", CITY.city_id, N)
    assert (footer.row_start, footer.row_stop, footer.rows) == (3, 8, 5)
    file = pq.ParquetFile(tmp_path / path)
    assert file.schema_arrow.remove_metadata() == SCHEMA
    assert SCHEMA.field("ids").type == pa.list_(pa.uint32())
    assert SCHEMA.field("demands").type == pa.list_(pa.uint16())
    assert SCHEMA.field("routes").type == pa.list_(pa.list_(pa.uint32()))
    assert SCHEMA.field("capacity").type == pa.uint32()
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"


def test_any_tool_reads_the_dataset(store: Store, tmp_path: Path) -> None:
    """A Hive-partitioned reader that knows nothing of us sees all rows with their size."""
    fill(store, [(0, 4), (4, 6)])
    fill(store, [(0, 3)], n=21)
    rebuild_manifest(store, "d")
    files = [str(p) for p in (tmp_path / "labels/d/data").glob("n=*/*.parquet")]
    table = ds.dataset(files, partitioning=ds.partitioning(flavor="hive")).to_table()
    assert sorted(table["n"].to_pylist()) == [20] * 6 + [21] * 3


def swapped(label: Label) -> list[list[int]]:
    return [list(route) for route in label.solution.routes]


def drop_one(label: Label) -> Label:
    routes = swapped(label)
    return with_routes(label, [*routes[:-1], routes[-1][1:]])


def serve_twice(label: Label) -> Label:
    routes = swapped(label)
    return with_routes(label, [*routes, [routes[0][0]]])


def serve_another_instead(label: Label) -> Label:
    routes = swapped(label)
    stranger = min(set(range(1, 61)) - set(label.instance.ids.tolist()))
    return with_routes(label, [[stranger, *routes[0][1:]], *routes[1:]])


def one_route(label: Label) -> Label:
    return with_routes(label, [[node for route in label.solution.routes for node in route]])


def wrong_price(label: Label) -> Label:
    return dataclasses.replace(label, cost=label.cost * (1 + 1e-7))


def not_a_number(label: Label) -> Label:
    return dataclasses.replace(label, cost=float("nan"))


def stranger_to_the_city(label: Label) -> Label:
    ids = [*label.instance.ids.tolist()[:-1], 61]
    instance = Instance(CITY.city_id, np.array(ids), label.instance.demands, label.instance.capacity)
    return dataclasses.replace(label, instance=instance)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (drop_one, "routes that do not serve customer .* exactly once"),
        (serve_twice, "routes that do not serve customer .* exactly once"),
        (serve_another_instead, "routes that do not serve customer .* exactly once"),
        (one_route, "load exceeds the capacity"),
        (wrong_price, "but its routes cost"),
        (not_a_number, "but its routes cost"),
        (stranger_to_the_city, "not in the city"),
    ],
)
@pytest.mark.parametrize("row", [0, 3, 5])
def test_a_wrong_label_is_never_stored(
    store: Store, change: Callable[[Label], Label], message: str, row: int
) -> None:
    """Any row may be wrong: it is named and nothing is written."""
    labels = [some_label(i) for i in range(6)]
    labels[row] = change(labels[row])
    with pytest.raises(McvrpError, match=rf"\(n=20, i={row}\).*{message}"):
        write_labels(store, layout.label_shard("d", N, 0), CITY, "spec", labels)
    assert store.list("") == []


def test_the_right_customer_is_named(store: Store) -> None:
    """A customer left out is the one in the message."""
    labels = [some_label(i) for i in range(3)]
    missing = labels[1].solution.routes[-1][0]
    labels[1] = drop_one(labels[1])
    with pytest.raises(
        McvrpError, match=rf"i=1\) has routes that do not serve customer {missing} exactly once"
    ):
        write_labels(store, "x.parquet", CITY, "spec", labels)


def test_rows_with_a_gap_are_never_stored(store: Store) -> None:
    """A file's rows are consecutive, so its footer can speak for them."""
    with pytest.raises(McvrpError, match="not consecutive"):
        write_labels(store, "x.parquet", CITY, "spec", [some_label(0), some_label(2)])


def test_costs_of_a_matrix_are_proved_with_the_matrix(store: Store) -> None:
    """A city with asymmetric costs proves its own labels, and refuses those of straight lines."""
    matrix = CITY.costs(np.arange(61))
    city = City(CITY.xy, matrix + np.triu(np.ones_like(matrix)))
    labels = [some_label(i) for i in range(3)]
    with pytest.raises(McvrpError, match="but its routes cost"):
        write_labels(store, "x.parquet", city, "spec", labels)
    priced = [dataclasses.replace(label, cost=cost(city, label.solution)) for label in labels]
    write_labels(store, "x.parquet", city, "spec", priced)
    assert store.exists("x.parquet")


def test_labels_are_read_as_arrays(store: Store) -> None:
    """The arrays hold the path of every label, in node numbers."""
    fill(store, [(0, 4), (4, 6)])
    table = load_labels(store, "d", N)
    assert len(table) == 6
    for i in range(6):
        label = some_label(i)
        assert table.ids[i].tolist() == label.instance.ids.tolist()
        assert table.demands[i].tolist() == label.instance.demands.tolist()
        assert table.capacities[i] == label.instance.capacity
        assert table.costs[i] == label.cost
        path = table.paths[table.offsets[i] : table.offsets[i + 1]]
        assert path.tolist() == label.solution.path.tolist()
    assert len(load_labels(store, "d", N, limit=5)) == 5
    assert load_labels(store, "d", N, limit=5).paths.tolist() == table.paths[: table.offsets[5]].tolist()


@pytest.mark.parametrize(
    ("parts", "limit", "there"), [([], None, 0), ([(0, 4)], 5, 4), ([(2, 6)], None, 0), ([(2, 6)], 3, 0)]
)
def test_missing_rows_are_named(
    store: Store, parts: list[tuple[int, int]], limit: int | None, there: int
) -> None:
    """Fewer labels than asked is an error that counts them, never a shorter table."""
    fill(store, parts)
    with pytest.raises(McvrpError, match=rf"has {there} of the \d+ labels of n=20: run mcvrp label"):
        load_labels(store, "d", N, limit)


# Files that are not what their place says


def foreign(bytes_: bytes) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"a": [1]}), buffer)
    return buffer.getvalue()


def wrong_columns(bytes_: bytes) -> bytes:
    table = pq.read_table(io.BytesIO(bytes_))
    buffer = io.BytesIO()
    pq.write_table(table.drop_columns(["seed"]), buffer)
    return buffer.getvalue()


def other_footer(**text: str | None) -> Callable[[bytes], bytes]:
    def change(bytes_: bytes) -> bytes:
        table = pq.read_table(io.BytesIO(bytes_))
        metadata = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
        changed = {key: value for key, value in {**metadata, **text}.items() if value is not None}
        buffer = io.BytesIO()
        pq.write_table(table.replace_schema_metadata(changed), buffer)
        return buffer.getvalue()

    return change


@pytest.mark.parametrize(
    ("corrupt", "message"),
    [
        (lambda b: b[: len(b) // 2], "is no whole Parquet file .*: remove it and label again"),
        (lambda b: b[:-1], "is no whole Parquet file .*: remove it and label again"),
        (lambda b: b"", "is no whole Parquet file .*: remove it and label again"),
        (lambda b: b"hello, world", "is no whole Parquet file .*: remove it and label again"),
        (foreign, "not a label file .*: move it away"),
        (wrong_columns, "has a corrupt footer: remove it and label again"),
        (other_footer(spec_hash="spek"), "has a corrupt footer: remove it and label again"),
        (other_footer(absent=None), "has a corrupt footer: remove it and label again"),
        (other_footer(check=None), "has a corrupt footer: remove it and label again"),
    ],
)
def test_what_is_no_shard_is_named_and_left_alone(
    store: Store, corrupt: Callable[[bytes], bytes], message: str
) -> None:
    """Truncated, foreign and newer files each get one sentence with the hint, and stay as they are."""
    fill(store, [(0, 5), (5, 9)])
    path = layout.label_shard("d", N, 1)
    store.put(path, corrupt(store.get(path)))
    before = store.get(path)
    for read in (
        lambda: list(Dataset.open(store, "d").shards()),
        lambda: load_labels(store, "d", N),
        lambda: Dataset.open(store, "d").fingerprint(),
    ):
        with pytest.raises(McvrpError, match=message) as caught:
            read()
        assert "part-00001.parquet" in str(caught.value)
        assert "\n" not in str(caught.value)
    assert store.get(path) == before


def test_a_shard_in_another_place_is_named(store: Store) -> None:
    """A shard copied under another name or size is refused."""
    fill(store, [(0, 3)])
    data = store.get(layout.label_shard("d", N, 0))
    store.put(layout.label_shard("d", 21, 0), data)
    with pytest.raises(McvrpError, match=r"n=021/part-00000\.parquet has labels of n=20, expected n=21"):
        list(Dataset.open(store, "d").shards())
    store.delete(layout.label_shard("d", 21, 0))
    store.put(layout.size_dir("d", N) + "/copy.parquet", data)
    with pytest.raises(McvrpError, match=r"copy\.parquet is not the path of a shard of n=20"):
        list(Dataset.open(store, "d").shards())


# Fingerprint and manifest


def test_the_fingerprint_is_of_the_content(store: Store) -> None:
    """The split into shards and the solver's seconds do not count; a row more does."""
    fill(store, [(0, 4), (4, 6)], "a")
    fill(store, [(0, 1), (1, 3), (3, 6)], "b")
    fill(store, [(0, 7)], "more")
    fill(store, [(1, 7)], "shifted")
    assert Dataset.open(store, "a").fingerprint() == Dataset.open(store, "b").fingerprint()
    assert len({Dataset.open(store, name).fingerprint() for name in ("a", "more", "shifted")}) == 3


def test_the_fingerprint_sees_other_routes(store: Store) -> None:
    """The same instances with one route turned round are another dataset."""
    labels = [some_label(i) for i in range(3)]
    write_labels(store, layout.label_shard("a", N, 0), CITY, "spec", labels)
    first, *rest = labels[1].solution.routes
    turned = dataclasses.replace(labels[1], solution=Solution((first[::-1], *rest)))
    write_labels(store, layout.label_shard("b", N, 0), CITY, "spec", [labels[0], turned, labels[2]])
    assert Dataset.open(store, "a").fingerprint() != Dataset.open(store, "b").fingerprint()


def test_the_manifest_is_derived(store: Store) -> None:
    """Lost, corrupt or stale, it is rebuilt to the same bytes, and a changed shard changes it."""
    fill(store, [(0, 4), (4, 6)])
    path = layout.manifest("d")
    rebuild_manifest(store, "d")
    whole = store.get(path)
    manifest = store.get_json(path)
    assert manifest["rows"] == 6
    listed = list(ShardList(store, "d"))
    assert [(e.path, e.footer.rows) for e in listed] == [
        (layout.label_shard("d", N, k), 4 - 2 * k) for k in (0, 1)
    ]
    assert [e.sha256 for e in listed] == [hashlib.sha256(store.get(e.path)).hexdigest() for e in listed]
    assert manifest["bytes"] == sum(store.size(e.path) for e in listed)
    assert manifest["fingerprint"] == Dataset.open(store, "d").fingerprint()
    for data in (b"", b"[]", b'{"shards": [{"path": 1}]}', whole):
        store.put(path, data)
        for known in (Dataset.open(store, "d"), None):
            rebuild_manifest(store, "d", known)
            assert store.get(path) == whole
    write_table(
        store, layout.label_shard("d", N, 1), CITY, "spec", N, label_table([some_label(i) for i in (4, 5, 6)])
    )
    rebuild_manifest(store, "d", Dataset.open(store, "d"))
    assert store.get_json(path)["rows"] == 7
    trusted = store.get(path)
    rebuild_manifest(store, "d")
    assert store.get(path) == trusted


def test_a_list_of_shards_that_rots_is_noticed(store: Store) -> None:
    """A flipped bit never becomes another checksum: the shard would be found corrupt by each verification."""
    fill(store, [(0, 4), (4, 6)])
    rebuild_manifest(store, "d")
    path = layout.shard_list("d")
    whole, listed = store.get(path), list(ShardList(store, "d"))
    for position in range(0, len(whole), 3):
        flipped = whole[:position] + bytes([whole[position] ^ 4]) + whole[position + 1 :]
        Path(store.uri, path).write_bytes(flipped)
        with contextlib.suppress(McvrpError):
            assert set(ShardList(store, "d")) <= set(listed)


def test_every_wrong_row_is_found(store: Store) -> None:
    """Of rows that are wrong in different ways each is found once, with what is wrong, and no other."""
    corrupt = {
        1: drop_one,
        2: serve_twice,
        4: wrong_price,
        5: one_route,
        6: stranger_to_the_city,
        8: serve_another_instead,
    }
    labels = [corrupt.get(i, lambda label: label)(some_label(i)) for i in range(10)]
    found = row_faults(CITY, LabelArrays.of(label_table(labels), N))
    assert [(fault.row, fault.i) for fault in found] == [(i, i) for i in sorted(corrupt)]
    words = ["exactly once", "exactly once", "its routes cost", "exceeds", "not in", "exactly once"]
    assert all(word in fault.what for word, fault in zip(words, found, strict=True))
    good = LabelArrays.of(label_table([some_label(i) for i in range(10)]), N)
    keep = np.arange(10) % 3 > 0
    some = LabelArrays.of(label_table([some_label(i) for i in range(10) if keep[i]]), N)
    for mine, other in zip(vars(good.take(keep)).values(), vars(some).values(), strict=True):
        assert np.array_equal(mine, other)


# Rows that no solver has solved


def write_with_absent(store: Store, k: int, rows: range, absent: set[int]) -> None:
    table = label_table([some_label(i) for i in rows if i not in absent])
    write_table(store, layout.label_shard("d", N, k), CITY, "spec", N, table, sorted(absent))


def test_absent_rows_are_declared(store: Store) -> None:
    """A shard may lack rows if it says so; readers see the others, in order, and count them only."""
    write_with_absent(store, 0, range(5), {0, 3})
    write_with_absent(store, 1, range(5, 8), {5, 6, 7})
    write_with_absent(store, 2, range(8, 10), set())
    footers = [file.footer for file in Dataset.open(store, "d").shards()]
    assert [(f.row_start, f.row_stop, f.rows, f.absent) for f in footers] == [
        (0, 5, 3, (0, 3)),
        (5, 8, 0, (5, 6, 7)),
        (8, 10, 2, ()),
    ]
    table = load_labels(store, "d", N)
    assert table.costs.tolist() == [some_label(i).cost for i in (1, 2, 4, 8, 9)]
    assert len(load_labels(store, "d", N, limit=4)) == 4
    rebuild_manifest(store, "d")
    manifest = store.get_json(layout.manifest("d"))
    assert (manifest["rows"], manifest["absent"], manifest["shards"]) == (5, 5, 3)


@pytest.mark.parametrize("absent", [{1}, {6}, {2, 3}])
def test_absent_rows_are_those_that_are_not_there(store: Store, absent: set[int]) -> None:
    """A row both there and absent, or an absent one that leaves a gap, is refused."""
    table = label_table([some_label(i) for i in (0, 1, 3, 4)])
    with pytest.raises(McvrpError, match="not consecutive"):
        write_table(store, "x.parquet", CITY, "spec", N, table, sorted(absent))
    assert store.list("") == []


# Bytes that changed on the disk


def test_a_flipped_bit_is_noticed(store: Store) -> None:
    """Any byte of the columns' pages may change: reading the rows says which file is corrupt."""
    fill(store, [(0, 30)])
    path = layout.label_shard("d", N, 0)
    data = store.get(path)
    file = pq.ParquetFile(io.BytesIO(data))
    group = file.metadata.row_group(0)
    harmless = 0  # a bit that says nothing of the rows, such as a statistic
    places = [
        at
        for column in map(group.column, range(group.num_columns))
        for at in np.linspace(column.data_page_offset, column.data_page_offset + 60, 7).astype(int)
        if at < column.data_page_offset + column.total_compressed_size
    ]
    for at in places:
        store.put(path, data[:at] + bytes([data[at] ^ 16]) + data[at + 1 :])
        try:
            table = read_table(store, path)
        except CorruptFile:
            continue
        harmless += 1
        assert table.equals(pq.read_table(io.BytesIO(data)))
    assert 2 * harmless < len(places)


@pytest.mark.parametrize("read", [parse_footer, parse_table])
def test_no_corrupt_footer_is_a_traceback(store: Store, read: Callable[[bytes, str], object]) -> None:
    """A footer overwritten in any way makes a file corrupt, and does not break its reader."""
    path = layout.label_shard("d", N, 0)
    fill(store, [(0, 4)])
    data = store.get(path)
    footer = int.from_bytes(data[-8:-4], "little") + 8
    rng = random.Random(1)
    for _ in range(3000):
        corrupt = bytearray(data)
        for _ in range(rng.choice([1, 4, 64])):
            corrupt[-rng.randint(1, footer)] ^= 1 << rng.randrange(8)
        with contextlib.suppress(McvrpError):
            read(bytes(corrupt), path)


def test_a_column_name_that_is_no_text_is_noticed(store: Store) -> None:
    """A column's name that is no UTF-8 makes the file corrupt."""
    path = layout.label_shard("d", N, 0)
    fill(store, [(0, 4)])
    data = store.get(path).replace(b"runtime", b"run\xffime")
    with pytest.raises(CorruptFile, match="no whole Parquet file"):
        parse_footer(data, path)


def test_row_groups_are_small(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are grouped so that a reader may take some thousand of them, each page with its checksum."""
    monkeypatch.setattr("mcvrp.storage.labels.label_files.ROW_GROUP", 4)
    fill(store, [(0, 10)])
    file = pq.ParquetFile(tmp_path / layout.label_shard("d", N, 0))
    assert [file.metadata.row_group(k).num_rows for k in range(file.num_row_groups)] == [4, 4, 2]
    assert len(load_labels(store, "d", N)) == 10
