"""Label files: what is wrong is never stored, and what is corrupt is never read."""

from __future__ import annotations

import contextlib
import io
import random
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mcvrp.model.canonical_form import canonical
from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City, Solution, cost
from mcvrp.storage import layout
from mcvrp.storage.labels.arrays import LabelArrays
from mcvrp.storage.labels.checks import row_faults
from mcvrp.storage.labels.dataset import Dataset, load_labels
from mcvrp.storage.labels.label_files import (
    checksummed,
    label_file,
    parse_footer,
    parse_table,
    read_footer,
    read_table,
    write_labels,
)
from mcvrp.storage.labels.manifest import rebuild_manifest
from mcvrp.storage.labels.schema import SCHEMA, Label, label_table, table_labels
from mcvrp.storage.store.store import Store
from tests.support.datasets import fill, forgotten_customer, other_routes, routes, write_rows
from tests.support.labels import CITY, N, some_label


def test_labels_and_their_footer_read_back(store: Store, tmp_path: Path) -> None:
    path, labels = layout.label_file("d", N, 3, 8), [some_label(i) for i in range(3, 8)]
    write_labels(store, path, CITY, "0123", labels)
    for before, after in zip(labels, table_labels(read_table(store, path), CITY.city_id), strict=True):
        assert after.instance.ids.tolist() == before.instance.ids.tolist()
        assert after.instance.demands.tolist() == before.instance.demands.tolist()
        assert after.instance.capacity == before.instance.capacity
        assert replace(after, instance=before.instance) == before
    footer = read_footer(store, path)
    assert (footer.spec_hash, footer.city_id, footer.n) == ("0123", CITY.city_id, N)
    assert (footer.row_start, footer.row_stop, footer.rows) == (3, 8, 5)
    file = pq.ParquetFile(tmp_path / path)
    assert file.schema_arrow.remove_metadata() == SCHEMA
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"


def serve_another_instead(label: Label) -> Label:
    first, *others = routes(label)
    stranger = min(set(range(1, 61)) - set(label.instance.ids.tolist()))
    return other_routes(label, [[stranger, *first[1:]], *others])


def stranger_to_the_city(label: Label) -> Label:
    ids = np.array([*label.instance.ids.tolist()[:-1], 61])
    return replace(label, instance=replace(label.instance, ids=ids))


ONCE = "routes that do not serve each customer exactly once"
WRONG: dict[Callable[[Label], Label], str] = {
    forgotten_customer: ONCE,
    lambda label: other_routes(label, [*routes(label), routes(label)[0][:1]]): ONCE,
    serve_another_instead: ONCE,
    lambda label: other_routes(label, [[node for route in routes(label) for node in route]]): "load exceeds",
    lambda label: replace(label, cost=label.cost * (1 + 1e-7)): "but its routes cost",
    lambda label: replace(label, cost=float("nan")): "but its routes cost",
    stranger_to_the_city: "not in the city",
}


@pytest.mark.parametrize(("change", "message"), WRONG.items())
def test_a_wrong_label_is_never_stored(store: Store, change: Callable[[Label], Label], message: str) -> None:
    for row in (0, 3, 5):
        labels = [some_label(i) for i in range(6)]
        labels[row] = change(labels[row])
        with pytest.raises(McvrpError, match=rf"\(n=20, i={row}\).*{message}"):
            write_labels(store, layout.label_file("d", N, 0, 6), CITY, "spec", labels)
    assert store.list("") == []


def test_every_wrong_row_is_found_and_no_other() -> None:
    """Those that fail one check at a time, until none is left."""
    right = {0: some_label(0), 8: some_label(8)}
    wrong = {i: change(some_label(i)) for i, change in enumerate(WRONG, 1)}
    labels, found = right | wrong, dict[int, str]()
    while faults := row_faults(CITY, LabelArrays.of(label_table([*labels.values()]), N)):
        found |= {fault.i: fault.what for fault in faults}
        labels = {i: label for i, label in labels.items() if i not in found}
    assert labels.keys() == right.keys()
    assert all(re.search(text, found[i]) for i, text in enumerate(WRONG.values(), 1))
    assert row_faults(CITY, LabelArrays.of(label_table([]), N)) == []


def test_a_cost_matrix_determines_the_costs(store: Store) -> None:
    matrix = CITY.costs(np.arange(61))
    city = City(CITY.xy, matrix + np.triu(np.ones_like(matrix)))
    labels = [some_label(i) for i in range(3)]
    with pytest.raises(McvrpError, match="but its routes cost"):
        write_labels(store, "x.parquet", city, "spec", labels)
    priced = [replace(label, cost=cost(city, label.solution)) for label in labels]
    write_labels(store, "x.parquet", city, "spec", priced)


def test_labels_are_read_as_arrays(store: Store) -> None:
    fill(store, 0, 4, 6)
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
    ("parts", "limit", "rows"),
    [([(0, 4)], 5, 4), ([(2, 6)], None, 0), ([(2, 6)], 3, 0), ([(0, 4), (6, 8)], None, 4)],
)
def test_missing_rows_are_named(
    store: Store, parts: list[tuple[int, int]], limit: int | None, rows: int
) -> None:
    for rows_of_file in parts:
        fill(store, *rows_of_file)
    with pytest.raises(McvrpError, match=rf"has {rows} of the \d+ labels of n=20: run mcvrp label"):
        load_labels(store, "d", N, limit)


def rewritten(data: bytes, change: Callable[[pa.Table], pa.Table]) -> bytes:
    return checksummed(change(pq.read_table(io.BytesIO(data))))


def other_footer(name: str, value: str | None) -> Callable[[bytes], bytes]:
    def change(table: pa.Table) -> pa.Table:
        metadata = {key.decode(): text.decode() for key, text in table.schema.metadata.items()}
        kept = {key: text for key, text in metadata.items() if key != name}
        return table.replace_schema_metadata(kept if value is None else {**kept, name: value})

    return lambda data: rewritten(data, change)


CORRUPT = "has a corrupt footer: mcvrp verify d --delete removes it"
CUT = "is no whole Parquet file .*: mcvrp verify d --delete removes it, mcvrp label makes it again"


@pytest.mark.parametrize(
    ("corrupt", "message"),
    [
        (lambda b: b[:-1], CUT),
        (lambda b: b"", CUT),
        (lambda b: b.replace(b"runtime", b"run\xffime"), CUT),  # no UTF-8
        (
            lambda b: rewritten(b, lambda _: pa.table({"a": [1]})),
            "not a label file .*: mcvrp verify d --delete",
        ),
        (lambda b: rewritten(b, lambda table: table.drop_columns(["seed"])), CORRUPT),
        (other_footer("spec_hash", "spek"), CORRUPT),
        (other_footer("check", None), CORRUPT),
    ],
)
def test_a_corrupt_or_foreign_shard_is_named_and_not_changed(
    store: Store, corrupt: Callable[[bytes], bytes], message: str
) -> None:
    fill(store, 0, 5, 9)
    path = layout.label_file("d", N, 5, 9)
    store.put(path, corrupt(store.get(path)))
    before = store.get(path)
    for read in (
        lambda: Dataset.open(store, "d").label_files,
        lambda: load_labels(store, "d", N),
        lambda: Dataset.open(store, "d").fingerprint(),
    ):
        with pytest.raises(McvrpError, match=message) as caught:
            read()
        assert "rows-00000005-00000009.parquet" in str(caught.value)
        assert "\n" not in str(caught.value)
    assert store.get(path) == before


def test_a_misplaced_file_is_named(store: Store) -> None:
    fill(store, 0, 3)
    data = store.get(layout.label_file("d", N, 0, 3))
    for path in (layout.label_file("d", 21, 0, 3), layout.label_file("d", N, 3, 6)):
        store.put(path, data)
        with pytest.raises(McvrpError, match=f"{path} has other rows than its name says: move it away"):
            Dataset.open(store, "d").label_files  # noqa: B018
        store.delete(path)
    store.put(layout.size_dir("d", N) + "/copy.parquet", data)
    with pytest.raises(McvrpError, match=r"copy\.parquet has not the name of a label file: move it away"):
        Dataset.open(store, "d")


def test_the_fingerprint_depends_on_the_rows_but_not_on_their_split(store: Store) -> None:
    fill(store, 0, 4, 6, dataset="a")
    fill(store, 0, 1, 3, 6, dataset="b")
    fill(store, 0, 7, dataset="more")
    fill(store, 1, 7, dataset="shifted")
    labels = [some_label(i) for i in range(6)]
    first, *rest = labels[1].solution.routes
    swapped = Solution.of([[first[1], first[0], *first[2:]], *rest])
    labels[1] = other_routes(labels[1], canonical(CITY, swapped).routes)
    write_labels(store, layout.label_file("turned", N, 0, 6), CITY, "spec", labels)
    assert Dataset.open(store, "a").fingerprint() == Dataset.open(store, "b").fingerprint()
    assert len({Dataset.open(store, name).fingerprint() for name in ("a", "more", "shifted", "turned")}) == 4


def test_absent_rows_are_declared_with_the_reason(store: Store) -> None:
    wanted: tuple[tuple[range, dict[int, str]], ...] = (
        (range(5), {0: "no routes", 3: "crash"}),
        (range(5, 8), {5: "", 6: "", 7: ""}),
        (range(8, 10), {}),
    )
    for rows, absent in wanted:
        write_rows(store, "d", N, label_table([some_label(i) for i in rows if i not in absent]), absent)
    footers = [file.footer for file in Dataset.open(store, "d").label_files]
    assert [(f.row_start, f.row_stop, f.rows, f.absent) for f in footers] == [
        (rows.start, rows.stop, len(rows) - len(absent), absent) for rows, absent in wanted
    ]
    table = load_labels(store, "d", N)
    assert table.costs.tolist() == [some_label(i).cost for i in (1, 2, 4, 8, 9)]
    assert len(load_labels(store, "d", N, limit=4)) == 4
    manifest = rebuild_manifest(Dataset.open(store, "d"))
    assert (manifest["rows"], manifest["absent"]) == (5, 5)


@pytest.mark.parametrize("absent", [set(), {1}, {6}, {2, 3}])
def test_rows_with_a_gap_are_never_stored(absent: set[int]) -> None:
    table = label_table([some_label(i) for i in (0, 1, 3, 4)])
    with pytest.raises(McvrpError, match="not consecutive"):
        label_file(CITY, "spec", N, table, dict.fromkeys(absent, ""))


@pytest.mark.parametrize("read", [parse_footer, parse_table])
def test_no_corrupt_footer_is_a_traceback(store: Store, read: Callable[[bytes, str], object]) -> None:
    path = layout.label_file("d", N, 0, 4)
    fill(store, 0, 4)
    data = store.get(path)
    footer = int.from_bytes(data[-8:-4], "little") + 8
    rng = random.Random(1)
    for _ in range(500):
        corrupt = bytearray(data)
        for _ in range(rng.choice([1, 4, 64])):
            corrupt[-rng.randint(1, footer)] ^= 1 << rng.randrange(8)
        with contextlib.suppress(McvrpError):
            read(bytes(corrupt), path)
