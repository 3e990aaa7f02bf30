"""Plan of a run from the names of files: what is missing, and what is merged."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, strategies as st

from mcvrp.storage import layout
from mcvrp.storage.labels.dataset import RowFile, without_merged
from mcvrp.tasks.label.plan import MOST_FILES, gaps, merges, missing_units
from mcvrp.tasks.label.spec import MOST_ROWS, LabelSpec, SpecDocument
from tests.support.datasets import label_spec

PAPER = LabelSpec(dataset="paper", smallest=20, largest=400, count=100_000, time_limit=5.0, tuned=False)
RANGES = st.lists(
    st.tuples(st.integers(0, 60), st.integers(1, 20)).map(lambda p: (p[0], p[0] + p[1])), max_size=8
)


def file(start: int, stop: int, n: int = 20, dataset: str = "d") -> RowFile:
    return RowFile(start, stop, layout.label_file(dataset, n, start, stop), 100)


def listing(ranges: list[tuple[int, int]]) -> list[RowFile]:
    return sorted((file(*rows) for rows in set(ranges)), key=lambda f: (f.start, -f.stop))


def covered(files: list[RowFile]) -> set[int]:
    return {row for each in files for row in range(each.start, each.stop)}


@given(RANGES, st.integers(0, 40), st.integers(1, 40))
def test_gaps_are_the_rows_in_no_file(ranges: list[tuple[int, int]], start: int, rows: int) -> None:
    missing = [row for a, b in gaps(listing(ranges), start, start + rows) for row in range(a, b)]
    assert missing == [row for row in range(start, start + rows) if row not in covered(listing(ranges))]


@given(RANGES)
def test_readers_leave_out_what_was_merged(ranges: list[tuple[int, int]]) -> None:
    """No row is lost, and no file that is left has all rows of another."""
    files = listing(ranges)
    kept = without_merged(files)
    assert covered(kept) == covered(files)
    for one in kept:
        assert not any(o != one and o.start <= one.start and one.stop <= o.stop for o in files)


@given(RANGES, st.sampled_from([1, 7, 60]), st.integers(1, 70))
def test_units_are_the_missing_rows_in_a_fixed_split(
    ranges: list[tuple[int, int]], shard_rows: int, count: int
) -> None:
    spec = label_spec(largest=20, count=count, shard_rows=shard_rows)
    files = listing(ranges)
    units = list(missing_units({20: files}, spec, SpecDocument()))
    made = [row for unit in units for row in range(unit.start, unit.stop)]
    assert made == [row for row in range(count) if row not in covered(files)]
    for unit in units:
        assert unit.start // shard_rows == (unit.stop - 1) // shard_rows


def test_more_instances_later_add_files() -> None:
    """The files there are stay as they are: the last one is not of full length."""
    spec = label_spec(largest=20, count=20, shard_rows=6)
    first = [file(0, 6), file(6, 10)]
    units = [(unit.start, unit.stop) for unit in missing_units({20: first}, spec, SpecDocument())]
    assert units == [(10, 12), (12, 18), (18, 20)]


def test_a_file_takes_ten_minutes_of_a_core() -> None:
    """About 120 labels of 5 s; the fixed number counts, whatever count is requested later."""
    units = [unit for unit in missing_units({}, PAPER, SpecDocument()) if unit.n == 20]
    assert {unit.rows for unit in units[:-1]} <= {119, 120}
    assert all(unit.rows * unit.seconds <= 600 for unit in units)
    slow = PAPER.model_copy(update={"time_limit": 700.0})
    assert SpecDocument().rows_per_file(slow, 20) == 1
    quick = PAPER.model_copy(update={"time_limit": 0.001})
    assert SpecDocument().rows_per_file(quick, 20) == 12_500
    assert SpecDocument({"shard_rows": 500}).rows_per_file(quick, 20) == 500


@pytest.mark.parametrize(("count", "rows"), [(10, 64), (1_500, 188), (10**6, MOST_ROWS)])
def test_a_dataset_begins_with_an_eighth_of_its_labels_per_file(count: int, rows: int) -> None:
    assert label_spec(count=count, shard_rows=None).file_rows == rows


def test_the_papers_labels_end_with_four_files_a_size() -> None:
    rows = range(0, PAPER.count, 120)
    files = [file(start, min(start + 120, PAPER.count)) for start in rows]
    todo = list(merges({20: files}, PAPER))
    assert [(each.start, each.stop) for each in todo] == [
        (0, 25_080),
        (25_080, 50_160),
        (50_160, 75_240),
        (75_240, 100_000),
    ]
    assert [path for each in todo for path in each.parts] == [each.path for each in files]


@pytest.mark.parametrize("files", [MOST_FILES, MOST_FILES + 1])
def test_few_files_and_those_with_gaps_are_not_merged(files: int) -> None:
    spec = label_spec(largest=20, count=6 * files)
    listed = [file(6 * k, 6 * k + 6) for k in range(files)]
    assert len(list(merges({20: listed}, spec))) == (files > MOST_FILES)
    assert not list(merges({20: listed[:-1]}, spec))


def test_rows_of_a_larger_run_are_not_merged_over_a_gap() -> None:
    """A smaller run is complete; rows beyond it belong to a larger one, which was interrupted."""
    spec = label_spec(largest=20, count=6)
    listed = [file(6 * k, 6 * k + 6) for k in range(12) if k != 9]
    assert [(each.start, each.stop) for each in merges({20: listed}, spec)] == [(0, 54), (60, 72)]


@pytest.mark.parametrize("seed", range(20))
def test_merges_that_are_killed_anywhere_are_repeated(seed: int) -> None:
    """Whatever part of them has happened, the next ones end with the same files."""
    rng = random.Random(seed)
    spec = LabelSpec(dataset="d", smallest=20, largest=20, count=60_000, time_limit=5.0)
    whole = {file(start, min(start + 1_000, 60_000)) for start in range(0, 60_000, 1_000)}
    present = set(whole)
    while todo := list(merges({20: listing([(f.start, f.stop) for f in present])}, spec)):
        merge = rng.choice(todo)
        present.add(file(merge.start, merge.stop))
        for path in merge.parts[: rng.randint(0, len(merge.parts))]:
            present -= {each for each in present if each.path == path}
    assert sorted((f.start, f.stop) for f in present) == [(0, 25_000), (25_000, 50_000), (50_000, 60_000)]


def test_rows_that_were_added_later_join_a_file_that_was_not_full() -> None:
    spec = label_spec(largest=20, count=40_000)
    added = [file(start, start + 3_000) for start in range(10_000, 40_000, 3_000)]
    first = list(merges({20: [file(0, 10_000), *added]}, spec))
    assert [(each.start, each.stop) for each in first] == [(0, 25_000), (25_000, 40_000)]
