"""Work of a worker: a file is created once, with every row checked; merged files have the same rows."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.storage.labels.dataset import Dataset, load_labels
from mcvrp.storage.labels.label_files import CorruptFile, label_file, read_footer, read_table
from mcvrp.storage.labels.schema import Label, label_table
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label import worker
from mcvrp.tasks.label.plan import Merge
from mcvrp.tasks.label.solving import Attempt, solver_seed
from mcvrp.tasks.label.units import Unit, UnitReceipt
from mcvrp.tasks.label.worker import ATTEMPTS, WorkerContext, label_unit, merge_files
from tests.support.datasets import CITY, flipped, forgotten_customer, label_spec, write_rows
from tests.support.killed import killed_at_each_write
from tests.support.labels import N, some_label

ROWS = 12
LABELS = [some_label(i) for i in range(ROWS)]
UNIT = Unit(N, 0, ROWS, seconds=1.0)
PATH = UNIT.path("d")
RECIPE = label_spec().recipe(CITY)


def answering(change: Callable[[int, int], Label | str]) -> Callable[..., Attempt]:
    return lambda *_: change


@pytest.fixture
def solved(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A worker whose instances are solved at once; the rows in the order of the calls."""
    rows: list[int] = []

    def attempt(i: int, _: int) -> Label:
        rows.append(i)
        return LABELS[i]

    monkeypatch.setattr(worker, "attempting", answering(attempt))
    return rows


def test_a_unit_creates_its_file_once(store: Store, solved: list[int]) -> None:
    context = WorkerContext(store, CITY, RECIPE)
    receipt = label_unit(UNIT, context)
    data = store.get(PATH)
    assert receipt == UnitReceipt(ROWS)
    assert data == label_file(CITY, RECIPE.spec_hash, N, label_table(LABELS))
    assert label_unit(UNIT, context) == UnitReceipt()  # nothing is solved again
    assert solved == list(range(ROWS))
    assert store.list("") == [PATH]


def test_a_folder_of_its_name_is_not_its_file(store: Store, solved: list[int]) -> None:
    """In a folder it is an error that names it, not a unit that is done; in a bucket the file is created."""
    store.put(f"{PATH}/x", b"")
    with pytest.raises(McvrpError, match=Path(PATH).name):
        label_unit(UNIT, WorkerContext(store, CITY, RECIPE))
    assert solved == list(range(ROWS))


def test_of_two_workers_one_creates_the_file(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The work of the others is dropped, even if their solver found other routes in the same time."""
    context, put_new, seconds = WorkerContext(store, CITY, RECIPE), Store.put_new, count(1.0)
    monkeypatch.setattr(Store, "stat", lambda *_: None)  # they have begun at the same time
    answer = answering(lambda i, _: replace(LABELS[i], runtime=next(seconds)))
    monkeypatch.setattr(worker, "attempting", answer)
    results: list[bool] = []

    def noted(self: Store, path: str, data: bytes) -> bool:
        results.append(put_new(self, path, data))
        return results[-1]

    monkeypatch.setattr(Store, "put_new", noted)
    monkeypatch.setattr("signal.signal", lambda *_: None)  # of the main thread only
    with ThreadPoolExecutor(4) as pool:
        receipts = list(pool.map(lambda _: label_unit(UNIT, context), range(4)))
    assert sorted(results) == [False] * 3 + [True]
    assert sorted(receipt.rows > 0 for receipt in receipts) == sorted(results)


def test_rows_that_no_attempt_solves_are_absent_with_the_reason(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each attempt has its own seed; a wrong answer is no label, either."""
    seeds: dict[int, list[int]] = {}

    def attempt(i: int, seed: int) -> Label | str:
        seeds.setdefault(i, []).append(seed)
        if i == 7 or (i == 2 and len(seeds[i]) < ATTEMPTS):
            return "no routes"
        return forgotten_customer(LABELS[i]) if i == 4 else LABELS[i]

    monkeypatch.setattr(worker, "attempting", answering(attempt))
    receipt = label_unit(UNIT, WorkerContext(store, CITY, RECIPE))
    assert receipt.rows == ROWS - 2
    assert receipt.absent[7] == "no routes"
    assert "do not serve each customer" in receipt.absent[4]
    assert read_footer(store, PATH).absent == receipt.absent
    assert read_table(store, PATH)["index"].to_pylist() == [i for i in range(ROWS) if i not in (4, 7)]
    first = solver_seed(1, N, 7)
    assert seeds[7] == [first, first + 1, first + 2]
    assert len(seeds[2]) == ATTEMPTS


def test_a_unit_of_which_nothing_is_solved_creates_no_file(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would hide that the solver does not work; few of its rows are tried."""
    tried: set[int] = set()

    def attempt(i: int, _: int) -> str:
        tried.add(i)
        return "no library"

    monkeypatch.setattr(worker, "attempting", answering(attempt))
    receipt = label_unit(UNIT, WorkerContext(store, CITY, RECIPE))
    assert (receipt.failure, receipt.rows, set(receipt.absent)) == ("no library", 0, tried)
    assert store.list("") == []
    assert len(tried) < ROWS


def test_a_killed_worker_leaves_a_whole_file_or_none(
    store: Store, solved: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    def work(copy: Store) -> UnitReceipt:
        return label_unit(UNIT, WorkerContext(copy, CITY, RECIPE))

    whole = label_file(CITY, RECIPE.spec_hash, N, label_table(LABELS))
    for copy, _ in killed_at_each_write(store, tmp_path_factory.mktemp("killed"), work, at_least=1):
        work(copy)
        assert copy.get(PATH) == whole


@pytest.fixture
def parts(store: Store) -> Merge:
    """Three files of a size: the second has a row without a label."""
    some = [label for label in LABELS[5:8] if label.index != 6]
    paths = [
        write_rows(store, "d", N, label_table(LABELS[:5])),
        write_rows(store, "d", N, label_table(some), {6: "no routes"}),
        write_rows(store, "d", N, label_table(LABELS[8:])),
    ]
    return Merge(N, 0, ROWS, parts=tuple(paths))


def test_a_merged_file_has_the_rows_of_its_parts(store: Store, parts: Merge) -> None:
    before, fingerprint = load_labels(store, "d", N), Dataset.open(store, "d").fingerprint()
    merge_files(parts, WorkerContext(store, CITY, RECIPE))
    assert store.list("") == [parts.path("d")]
    assert read_footer(store, parts.path("d")).absent == {6: "no routes"}
    assert load_labels(store, "d", N).costs.tolist() == before.costs.tolist()
    assert Dataset.open(store, "d").fingerprint() == fingerprint


def test_a_merge_that_is_killed_anywhere_is_repeated(
    store: Store, parts: Merge, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """At every moment readers have each row once."""
    fingerprint = Dataset.open(store, "d").fingerprint()

    def work(copy: Store) -> None:
        merge_files(parts, WorkerContext(copy, CITY, RECIPE))

    for copy, _ in killed_at_each_write(store, tmp_path_factory.mktemp("killed"), work, at_least=1):
        assert Dataset.open(copy, "d").fingerprint() == fingerprint
        left = [path for path in parts.parts if copy.exists(path)]
        merge_files(replace(parts, parts=tuple(left)), WorkerContext(copy, CITY, RECIPE))
        assert copy.list("") == [parts.path("d")]
        assert Dataset.open(copy, "d").fingerprint() == fingerprint


def test_parts_that_are_corrupt_stay(store: Store, parts: Merge) -> None:
    store.put(parts.parts[1], flipped(store.get(parts.parts[1])))
    with pytest.raises(CorruptFile, match=Path(parts.parts[1]).name):
        merge_files(parts, WorkerContext(store, CITY, RECIPE))
    assert store.list("") == list(parts.parts)
