"""Verification and repair with real Ray and real HGS: what is corrupt is named, and labelling repairs it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.cities import save_city
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.labels.label_files import read_table
from mcvrp.storage.labels.verification import VerificationReport, corrupt_files, read_verification
from mcvrp.storage.provenance import FIELD
from mcvrp.storage.store.errors import StoreError, StoreUnavailable
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.stage import label_missing, labels_missing
from mcvrp.tasks.label.verify import verify_dataset
from mcvrp.tasks.support.ray_session import ray_session
from mcvrp.tasks.support.ray_window import windowed
from tests.support.datasets import (
    CITY,
    dearer,
    everything,
    flipped,
    in_row,
    label_spec,
    make_dataset,
    rewritten,
    swapped_customers,
    wrong_demand,
)
from tests.support.silent_store import Outage, check_repeated

NOWHERE = Store("/nowhere")
FIRST, SECOND = layout.label_shard("d", 20, 0), layout.label_shard("d", 20, 1)  # rows 0-5 and 6-9


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Every file of a store with an undisturbed dataset."""
    store = Store.open(tmp_path_factory.mktemp("labelled"))
    save_city(store, "c", CITY)
    label_missing(store, CITY, label_spec())
    return everything(store)


@pytest.fixture
def store(store: Store, labelled: dict[str, bytes]) -> Store:
    """A store with a copy of that dataset."""
    for path, data in labelled.items():
        store.put(path, data)
    return store


def runtimes(store: Store) -> dict[tuple[int, int], float]:
    """The solver's seconds of every label: a label that was solved again has others."""
    tables = [(shard.footer.n, read_table(store, shard.path)) for shard in Dataset.open(store, "d").shards()]
    return {(n, row["index"]): row["runtime"] for n, table in tables for row in table.to_pylist()}


def changed(before: dict[tuple[int, int], float], store: Store) -> set[tuple[int, int]]:
    """The instances that were solved again."""
    after = runtimes(store)
    assert after.keys() == before.keys()
    return {key for key in before if before[key] != after[key]}


def test_a_right_dataset_is_verified(store: Store) -> None:
    before = everything(store)
    report = verify_dataset(store, "d")
    assert report.good
    assert (report.rows, report.files, report.unchecked) == (20, 4, ())
    assert report.fingerprint == Dataset.open(store, "d").fingerprint()
    assert read_verification(store, "d") == report
    store.delete(layout.verification("d"))
    assert everything(store) == before


def in_file(path: str, change: Callable[[bytes], bytes]) -> Callable[[Store], None]:
    return lambda store: store.put(path, change(store.get(path)))


def copied_to(path: str) -> Callable[[Store], None]:
    return lambda store: store.put(path, store.get(FIRST))


def rows_of(n: int, *index: int) -> set[tuple[int, int]]:
    return {(n, i) for i in index}


@pytest.mark.parametrize(
    ("change", "fault", "again"),
    [
        (in_file(SECOND, lambda b: rewritten(b, in_row(1, dearer))), "row 1 (instance n=20, i=7)", {7}),
        (in_file(SECOND, lambda b: rewritten(b, in_row(1, swapped_customers))), "row 1", {7}),
        (in_file(SECOND, lambda b: rewritten(b, in_row(1, wrong_demand))), "row 1", {7}),
        (in_file(SECOND, lambda b: rewritten(b, lambda rows: rows[1:])), "3 rows, its footer says 4", {6}),
        (in_file(SECOND, flipped), "rows 0 to 3 cannot be read", {6, 7, 8, 9}),
        (in_file(SECOND, lambda b: b[:-10]), "no whole Parquet file", {6, 7, 8, 9}),
        (in_file(SECOND, lambda b: b""), "no whole Parquet file", {6, 7, 8, 9}),
        (copied_to(layout.label_shard("d", 20, 7)), "rows 0 to 6, expected 42 to 48", set()),
        (copied_to(layout.label_shard("d", 21, 5)), "not the path of a shard of n=20", set()),
        (copied_to(f"{layout.size_dir('d', 20)}/copy.parquet"), "not the path of a shard of n=20", set()),
    ],
)
def test_what_is_corrupt_is_named_and_repaired(
    store: Store, change: Callable[[Store], None], fault: str, again: set[int]
) -> None:
    """Verify names the file and the row; labelling again solves what was lost and no more."""
    before, content = runtimes(store), Dataset.open(store, "d").fingerprint()
    change(store)
    report = verify_dataset(store, "d")
    assert not report.good
    assert any(fault in str(each) for each in report.faults), report.faults
    assert labels_missing(store, CITY, label_spec()) > 0
    label_missing(store, CITY, label_spec())
    assert changed(before, store) == rows_of(20, *again)
    assert Dataset.open(store, "d").fingerprint() == content
    assert len(store.list(layout.corrupt_dir("d"))) == 1
    assert corrupt_files(store, "d") == {}
    assert verify_dataset(store, "d").good


def test_a_file_without_footer_is_repaired_without_a_report(store: Store) -> None:
    before = runtimes(store)
    in_file(SECOND, lambda data: data[:-10])(store)
    store.put(layout.staged_chunk("d", 21, 2, 4), b"half a file")
    assert labels_missing(store, CITY, label_spec()) == 4
    label_missing(store, CITY, label_spec())
    assert changed(before, store) == rows_of(20, 6, 7, 8, 9)
    assert len(store.list(layout.corrupt_dir("d"))) == 2
    assert verify_dataset(store, "d").good


def test_several_files_are_repaired_at_once(store: Store) -> None:
    before, content = runtimes(store), Dataset.open(store, "d").fingerprint()
    in_file(FIRST, lambda data: rewritten(data, in_row(0, dearer)))(store)
    in_file(SECOND, flipped)(store)
    store.delete(layout.label_shard("d", 21, 0))
    report = verify_dataset(store, "d")
    assert {fault.path for fault in report.faults} == {FIRST, SECOND, layout.label_shard("d", 21, 0)}
    assert (report.missing, report.missing_rows) == (((21, 0, 6),), 6)
    label_missing(store, CITY, label_spec())
    assert changed(before, store) == rows_of(20, 0, 6, 7, 8, 9) | rows_of(21, *range(6))
    assert Dataset.open(store, "d").fingerprint() == content
    assert verify_dataset(store, "d").good


def test_a_city_with_its_own_ranges_keeps_its_good_rows(tmp_path: Path) -> None:
    """A row that is wrong costs that row, too, if the ranges are the city's and not the spec's."""
    store, city = Store.open(tmp_path), City(CITY.xy, demand=(2, 12), capacity=(40, 60))
    save_city(store, "c", city)
    label_missing(store, city, label_spec())
    before, content = runtimes(store), Dataset.open(store, "d").fingerprint()
    in_file(SECOND, lambda data: rewritten(data, in_row(1, dearer)))(store)
    assert [fault.row for fault in verify_dataset(store, "d").faults] == [None, 1]
    label_missing(store, city, label_spec())
    assert changed(before, store) == rows_of(20, 7)
    assert Dataset.open(store, "d").fingerprint() == content


def test_a_report_on_other_bytes_takes_nothing_out(store: Store) -> None:
    whole = store.get(SECOND)
    in_file(SECOND, lambda data: rewritten(data, in_row(1, dearer)))(store)
    verify_dataset(store, "d")
    store.put(SECOND, whole)
    before = runtimes(store)
    label_missing(store, CITY, label_spec())
    assert changed(before, store) == set()
    assert store.list(layout.corrupt_dir("d")) == []


@pytest.mark.parametrize("name", ["manifest.json", "shards.pq", "statistics.pq", "README.md"])
@pytest.mark.parametrize("data", [None, b"garbage"])
def test_what_is_derived_is_made_anew(store: Store, name: str, data: bytes | None, labelled: Any) -> None:
    """Lost or corrupt, verify still proves the labels, and labelling brings the same bytes back."""
    path = f"{layout.label_dir('d')}/{name}"
    if data is None:
        store.delete(path)
    else:
        store.put(path, data)
    report = verify_dataset(store, "d")
    assert report.good
    assert ("checksums could not be compared" in str(report.unchecked)) == (name == "shards.pq")
    if data is None:  # what is lost is noticed without new labels
        label_missing(store, CITY, label_spec())
        assert store.exists(path)
    store.delete(layout.label_shard("d", 21, 1))
    label_missing(store, CITY, label_spec())
    if name != "README.md":
        assert store.get(path) not in (data, b"")
    assert verify_dataset(store, "d").good


def test_a_spec_that_is_lost_or_corrupt_is_named_and_written_again(store: Store) -> None:
    path = layout.label_spec("d")
    whole, before = store.get_json(path), runtimes(store)
    whole.pop(FIELD)  # who made the labels is no longer known
    for data in (None, b"", b"{", b"[]", b'{"city_id": "x"}'):
        store.delete(path) if data is None else store.put(path, data)
        report = verify_dataset(store, "d")
        assert [fault.path for fault in report.faults] == [path]
        assert report.unchecked
        if data != b'{"city_id": "x"}':  # that one contradicts what is asked
            label_missing(store, CITY, label_spec())
            assert store.get_json(path) == whole
            assert verify_dataset(store, "d").good
    assert changed(before, store) == set()


def test_what_cannot_be_verified_is_refused(store: Store) -> None:
    with pytest.raises(McvrpError, match="there is no dataset 'e'"):
        verify_dataset(store, "e")
    store.delete("cities")
    with pytest.raises(McvrpError, match=f"no city in .* has the id {CITY.city_id}"):
        verify_dataset(store, "d")


def test_instances_of_the_other_split_are_seen(tmp_path: Path) -> None:
    """Two splits share nothing, until a dataset of one says that it is of the other."""
    store = Store.open(tmp_path)
    make_dataset(store, label_spec())
    make_dataset(store, label_spec(dataset="t", split="test", largest=20))
    assert verify_dataset(store, "d").good
    assert verify_dataset(store, "t").good
    path = layout.label_spec("t")
    make_dataset(store, label_spec(dataset="t", largest=20, seed=1))
    store.put_json(path, {**store.get_json(path), "split": "test"})
    report = verify_dataset(store, "d")
    assert len(report.faults) == 10
    assert "it is instance (n=20, i=0) of dataset 't'" in str(report.faults[0])
    assert (report.faults[0].path, report.faults[0].row) == (FIRST, 0)
    assert corrupt_files(store, "d") == {}  # the labels are right


def test_a_report_that_cannot_be_kept_is_still_given(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse = Mock(side_effect=StoreError("cannot write"))
    monkeypatch.setattr("mcvrp.tasks.label.verify.write_verification", refuse)
    report = verify_dataset(store, "d")
    assert report.good
    assert "the report could not be stored" in report.unchecked[0]


def test_a_corrupt_report_is_no_report(store: Store) -> None:
    for data in (b"", b"[]", b'{"faults": 3}', json.dumps({"faults": [{"path": 1}]}).encode()):
        store.put(layout.verification("d"), data)
        assert read_verification(store, "d") is None
        assert label_missing(store, CITY, label_spec()).new == 0


def _worked(item: int, shared: int) -> int:
    if item == 3:
        os._exit(1)
    return item * shared


@pytest.mark.slow
def test_a_worker_that_dies_takes_no_other_along() -> None:
    """An item that kills its reader each time has that as its answer; the other items have theirs."""
    answers = dict(windowed(_worked, range(8), 2, 10, NOWHERE))
    assert isinstance(answers.pop(3), Exception)
    assert answers == {k: 10 * k for k in range(8) if k != 3}


def _refused(item: int, shared: int) -> int:
    if item == 3:
        raise StoreError("no space left") if shared == 0 else McvrpError("not this one")
    return item


@pytest.mark.slow
def test_a_refusal_ends_all_or_only_its_item() -> None:
    """A `McvrpError` is raised or the answer, as requested; an error of the store is raised."""
    with pytest.raises(McvrpError, match="not this one"):
        list(windowed(_refused, range(8), 2, 10, NOWHERE))
    answers = dict(windowed(_refused, range(8), 2, 10, NOWHERE, refusals=True))
    assert str(answers.pop(3)) == "not this one"
    assert answers == {k: k for k in range(8) if k != 3}
    with pytest.raises(StoreError, match="no space left"):
        list(windowed(_refused, range(8), 2, 0, NOWHERE, refusals=True))


@pytest.mark.slow
def test_verification_is_repeated_after_a_silence_of_the_store(
    store: Store, scratch: Path, outage: Outage
) -> None:
    in_file(SECOND, lambda b: rewritten(b, in_row(1, dearer)))(store)

    def report(there: Store) -> VerificationReport:
        return replace(verify_dataset(there, "d"), verified_at="")

    check_repeated(store, scratch, outage, report, at_least=15, exact=".parquet")


def _slow(item: int, seconds: float) -> int:
    time.sleep(seconds)
    return item


def test_a_store_that_does_not_answer_workers_ends_the_command(
    scratch: Path, outage: Outage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody sees that they wait: while none answers, the driver asks the store."""
    monkeypatch.setattr("mcvrp.tasks.support.ray_window._SILENT_SECONDS", 0.0)
    store = Store.open(scratch)
    outage.begin(1)
    with ray_session(1), pytest.raises(StoreUnavailable, match="cannot look at"):
        list(windowed(_slow, [1], 1, 3.0, store))
