"""Publishing a shard: all labels of all who write it, the first of each row, and nothing ever lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from mcvrp.model.errors import McvrpError
from mcvrp.storage.driven import checksum
from mcvrp.storage.labels.label_files import read_footer, read_table, write_table
from mcvrp.storage.labels.schema import label_table
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.worker import LabelPiece, merge_shard, publish
from tests.support.labels import CITY, N, some_label

ROWS = 12
LABELS = {(i, mark): some_label(i, runtime=mark) for i in range(ROWS) for mark in range(4)}
PATH = "labels/d/data/n=020/part-00000.parquet"


def piece(rows: dict[int, bool], mark: int) -> LabelPiece:
    """Labels of the rows that are True, marked by their runtime; the others are absent."""
    labels = [LABELS[i, mark] for i in sorted(rows) if rows[i]]
    return LabelPiece(label_table(labels), tuple(i for i in sorted(rows) if not rows[i]))


def runtimes(store: Store) -> dict[int, float]:
    table = read_table(store, PATH)
    return dict(zip(table["index"].to_pylist(), table["runtime"].to_pylist(), strict=True))


PIECES = st.lists(st.dictionaries(st.integers(0, ROWS - 1), st.booleans(), max_size=ROWS), max_size=3)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(PIECES, st.none() | st.dictionaries(st.integers(0, ROWS - 1), st.booleans()))
def test_the_first_label_of_each_row_counts(
    tmp_path: Path, pieces: list[dict[int, bool]], state: dict[int, bool] | None
) -> None:
    """The shard there before all, then the pieces in order; absent is what none has; a gap is refused."""
    store = Store.open(tmp_path)
    store.delete("labels")
    before: dict[int, bool] = {}
    if state:
        before = {i: state.get(i, False) for i in range(max(state) + 1)}
        stored = piece(before, 3)
        write_table(store, PATH, CITY, "spec", N, stored.table, stored.absent)
    expected: dict[int, float] = {i: 3.0 for i, label in before.items() if label}
    known = set(before)
    for mark, rows in enumerate(pieces):
        known |= set(rows)
        for i, label in rows.items():
            if label:
                expected.setdefault(i, float(mark))
    stop = max(known, default=0) + 1
    made = [piece(rows, mark) for mark, rows in enumerate(pieces)]
    if made or before:
        if known == set(range(stop)):
            shard = publish(store, CITY, "spec", PATH, N, 0, stop, made)
            assert runtimes(store) == expected
            footer = read_footer(store, PATH)
            assert (shard.path, shard.footer) == (PATH, footer)
            assert (shard.bytes, shard.sha256) == (store.size(PATH), checksum(store.get(PATH)))
            assert shard.figures
            assert sum(maker.rows for maker in shard.figures.makers) == len(expected)
            assert (footer.row_start, footer.row_stop) == (0, stop)
            assert set(footer.absent) == known - set(expected)
        else:
            data = store.get(PATH) if before else None
            with pytest.raises(McvrpError, match="is in none of the files to be merged"):
                publish(store, CITY, "spec", PATH, N, 0, stop, made)
            assert (store.get(PATH) if store.exists(PATH) else None) == data


def test_a_merge_that_gains_nothing_or_is_repeated_writes_nothing(store: Store) -> None:
    whole = piece(dict.fromkeys(range(6), True), 0)
    file = write_table(store, PATH, CITY, "spec", N, whole.table)
    before = store.get(PATH)
    again = piece(dict.fromkeys(range(2, 4), True), 1)
    staged = write_table(store, "staged.parquet", CITY, "spec", N, again.table)
    for _ in range(2):  # the worker may die between publishing and its receipt
        shard = merge_shard(store, CITY, "spec", PATH, N, 0, 6, [staged, file])
        assert (shard.footer, shard.sha256) == (file.footer, checksum(before))
        assert store.get(PATH) == before
        assert store.list("") == [PATH]
