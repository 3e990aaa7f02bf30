"""Staged chunks: few per shard, growing while their unit works, and continued by whoever comes next."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from mcvrp.storage import layout
from mcvrp.storage.labels.label_files import LabelFile, label_file, read_footer, write_table
from mcvrp.storage.labels.schema import Footer, label_table
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label import solving, worker
from mcvrp.tasks.label.plan import (
    CHUNKS_PER_SHARD,
    EARLY_UNITS,
    LabelDataset,
    ShardJob,
    cut_into_units,
    survey,
    unit_rows,
)
from mcvrp.tasks.label.spec import LabelSpec, Source, seconds_per_instance
from mcvrp.tasks.label.work import Outcome, Unit
from mcvrp.tasks.label.worker import PUBLISH_SECONDS, label_unit, merge_shard
from tests.support.killed import killed_at_each_write
from tests.support.labels import CITY, N, some_label, unit_receipt

LABELS = [some_label(i, runtime=i / 7) for i in range(40)]
SHARD = layout.label_shard("d", N, 0)
SPEC = LabelSpec(dataset="d", smallest=N, largest=N, count=40, iterations=5, capacity=(30, 39), shard_rows=40)
RECIPE = SPEC.recipe(CITY)
UNIT = Unit(N, 0, 12, seconds=12.0)
CHUNK = layout.staged_chunk("d", N, 0, 12)


@pytest.fixture
def solved(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """A worker whose instances are solved at once; counts how often each is. Chunks are written at each."""
    counts = Counter[int]()

    def attempting(*_: object) -> object:
        def attempt(i: int, seed: int) -> Outcome:
            counts[i] += 1
            return LABELS[i]

        return attempt

    monkeypatch.setattr(solving, "attempting", attempting)
    monkeypatch.setattr(worker, "PUBLISH_SECONDS", -1.0)
    return counts


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows of the file at each write."""
    rows: list[int] = []
    really = label_file

    def counted(*arguments: object) -> tuple[bytes, Footer]:
        data, footer = really(*arguments)  # type: ignore[arg-type]
        rows.append(footer.row_stop - footer.row_start)
        return data, footer

    monkeypatch.setattr(f"{worker.__name__}.label_file", counted)
    return rows


def paper(shard_rows: int = 25_000) -> Iterator[ShardJob]:
    """The shards of the preset `paper`: 38.1 M labels of 5 s."""
    for n in range(20, 401):
        for k, start in enumerate(range(0, 100_000, shard_rows)):
            stop = start + shard_rows
            yield ShardJob(n, k, start, stop, [], [(start, stop)])


@pytest.mark.parametrize("workers", [64, 3_810, 4_096])
def test_the_papers_labels_take_few_staged_objects(workers: int) -> None:
    """At most 100,000 for all and 64 per shard, and a sixth of the requests of a chunk per minute."""
    spec = LabelSpec(dataset="paper", smallest=20, largest=400, count=100_000, time_limit=5.0, tuned=False)
    assert seconds_per_instance(spec, 20) == pytest.approx(5.0, rel=0.1)
    total = sum(seconds_per_instance(spec, n) * spec.count for n in spec.sizes)
    chunks, labels, requests = Counter[tuple[int, int]](), 0, 0
    for (job,), unit in cut_into_units(spec, paper(), total / workers, EARLY_UNITS):
        assert unit
        chunks[job.n, job.k] += 1
        labels += unit.rows
        requests += 1 + 2 * math.ceil(unit.seconds / PUBLISH_SECONDS)  # as the tests on S3 count them
    requests += sum(chunks.values()) + 3 * len(chunks)
    assert labels == 38_100_000
    assert max(chunks.values()) <= CHUNKS_PER_SHARD + len(EARLY_UNITS) == 80
    assert sum(chunks.values()) <= 100_000
    assert requests < 2_000_000  # 12.7 M with a chunk of 12 rows each minute


@pytest.mark.parametrize(
    ("estimate", "share", "rows"),
    [
        (5.0, 50_000.0, 391),  # much work of slow labels: as few chunks as allowed
        (0.012, 5_000.0, 5_000),  # of fast ones: a minute each
        (5.0, 60.0, 6),  # more workers than chunks allow: none of them idle
        (5.0, 0.1, 1),
    ],
)
def test_units_are_as_long_as_the_work_allows(estimate: float, share: float, rows: int) -> None:
    assert unit_rows(25_000, estimate, share) == rows


@pytest.mark.parametrize("count", [40, 1000, 60_000])
def test_something_is_kept_soon(count: int) -> None:
    """The first units take 5 s, whether of a whole shard or of a part; the next ones longer."""
    spec = LabelSpec(dataset="d", smallest=N, largest=N, count=count, time_limit=1.0, tuned=False)
    job = ShardJob(N, 0, 0, count, [], [(0, count)])
    units = [unit for _, unit in cut_into_units(spec, [job], 1e4, iter(EARLY_UNITS)) if unit]
    assert [unit.seconds <= 5 for unit in units[:5]] == [True] * 4 + [False]
    assert [row for unit in units for row in range(unit.start, unit.stop)] == list(range(count))


def test_a_kill_costs_at_most_five_minutes() -> None:
    """The paper's labels are written every 4.5 minutes, and one instance may be unfinished."""
    assert PUBLISH_SECONDS + 5.0 <= 300.0


def test_a_chunk_grows_while_its_unit_works(store: Store, solved: Counter[int], written: list[int]) -> None:
    receipt = unit_receipt(store, CITY, RECIPE, UNIT)
    assert written == list(range(1, 13))
    assert receipt.chunk == LabelFile(CHUNK, read_footer(store, CHUNK))
    assert store.list("") == [CHUNK]
    assert set(solved.values()) == {1}


def test_a_chunk_is_stored_and_counted_after_five_seconds(
    store: Store, solved: Counter[int], written: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With labels of 2 s each, the first write is that of the third; the next one is due in minutes."""
    clock = itertools.count(0.0, 2.0)
    monkeypatch.setattr(worker, "PUBLISH_SECONDS", PUBLISH_SECONDS)
    monkeypatch.setattr(worker, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    *counts, _ = label_unit(store, CITY, RECIPE, UNIT)
    assert written == [3, 12]
    assert set(counts) >= {(3, 3), (11, 3)}
    assert max(count[1] for count in counts[:-1] if isinstance(count, tuple)) == 3


def test_who_repeats_a_unit_goes_on_with_its_chunk(
    store: Store, solved: Counter[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """After a kill at any write, no row that was stored is solved again, and the bytes are the same."""

    def work(copy: Store) -> None:
        solved.clear()
        unit_receipt(copy, CITY, RECIPE, UNIT)

    folder = tmp_path_factory.mktemp("killed")
    whole = label_file(CITY, RECIPE.spec_hash, N, label_table(LABELS[:12]))[0]
    for copy, done in killed_at_each_write(store, folder, work, at_least=12):
        receipt = unit_receipt(copy, CITY, RECIPE, UNIT)
        assert (receipt.rows, receipt.failures) == (12, ())
        assert sum(solved.values()) == 12 + (not done)  # one row was solved and not yet stored
        assert copy.get(CHUNK) == whole


def test_the_next_run_goes_on_with_a_chunk(store: Store, solved: Counter[int]) -> None:
    """It appends to the file of before, so that kills add no files; the other rows are cut as before."""
    begun = write_table(store, CHUNK, CITY, RECIPE.spec_hash, N, label_table(LABELS[:5]))
    job = ShardJob(N, 0, 0, 40, [begun], [(5, 40)])
    spec = LabelSpec(dataset="d", smallest=N, largest=N, count=40, time_limit=5.0, shard_rows=40)
    units = [unit for _, unit in cut_into_units(spec, [job], 16 * 60.0) if unit]
    assert [(unit.chunk, unit.start, unit.stop) for unit in units] == [
        (0, 5, 12),
        (None, 12, 24),
        (None, 24, 36),
        (None, 36, 40),
    ]
    receipt = unit_receipt(store, CITY, RECIPE, units[0])
    assert (receipt.rows, sorted(solved)) == (7, list(range(5, 12)))
    assert store.list("") == [CHUNK]
    assert receipt.chunk
    assert (receipt.chunk.footer.row_start, receipt.chunk.footer.row_stop) == (0, 12)


def test_a_smaller_run_keeps_the_rows_that_are_staged_beyond_it(store: Store) -> None:
    """A larger run, which was interrupted, merges them; the chunk of other rows is removed."""
    chunks = [
        write_table(
            store, layout.staged_chunk("d", N, a, b), CITY, RECIPE.spec_hash, N, label_table(LABELS[a:b])
        )
        for a, b in ((0, 2), (2, 5))
    ]
    merge_shard(store, CITY, RECIPE.spec_hash, SHARD, N, 0, 3, chunks)
    assert store.list("") == [chunks[1].path, SHARD]
    (job,) = survey(LabelDataset.open(store, Source(SPEC, CITY)), N)
    assert job.gaps == [(5, 40)]


@pytest.mark.parametrize("cut", [1, 7, 12, 40])
def test_a_shard_has_the_same_bytes_however_it_was_staged(store: Store, cut: int) -> None:
    sources = [
        write_table(
            store, layout.staged_chunk("d", N, a, a + cut), CITY, "spec", N, label_table(LABELS[a : a + cut])
        )
        for a in range(0, 40, cut)
    ]
    merge_shard(store, CITY, "spec", SHARD, N, 0, 40, sources[::-1])
    assert store.get(SHARD) == label_file(CITY, "spec", N, label_table(LABELS))[0]
    assert store.list("") == [SHARD]
