"""Verification of a file that the store does not give: it may be good."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext

import pytest

from mcvrp.storage.store.errors import StoreError, refusal
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label import verify
from mcvrp.tasks.support.progress import ProgressReport, listening
from tests.support.datasets import label_path, label_spec, make_dataset


def _one_by_one(
    work: Callable[..., object], paths: Iterable[str], _workers: int, shared: object
) -> Iterator[tuple[str, object]]:
    return ((path, work(path, shared)) for path in paths)


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "windowed", _one_by_one)
    monkeypatch.setattr(verify, "ray_session", lambda: nullcontext(1))


def test_a_whole_file_of_another_name_is_kept_and_the_others_are_verified(store: Store) -> None:
    make_dataset(store, label_spec())
    foreign = "labels/d/data/n=020/rows-00000010-00000016.parquet"
    store.put(foreign, store.get(label_path(0)))
    for delete in (False, True):
        report = verify.verify_dataset(store, "d", delete=delete)
        [fault] = report.faults
        assert (fault.path, fault.misplaced) == (foreign, True)
        assert (report.files, report.missing, store.exists(foreign)) == (4, (), True)
        assert not report.deleted


def test_progress_counts_the_bad_files_that_the_report_does(store: Store) -> None:
    make_dataset(store, label_spec())
    misplaced = label_path(0).replace("rows-00000000-00000006", "rows-00000010-00000016")
    store.put(misplaced, store.get(label_path(0)))
    store.put(label_path(1), b"rotten")
    reports: list[ProgressReport] = []
    with listening(reports.append):
        report = verify.verify_dataset(store, "d")
    assert [fault.misplaced for fault in report.faults] == [False, True]
    assert "1 bad file" in reports[-1].note


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
def test_an_unreadable_file_is_named_and_nothing_removed(
    store: Store, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    make_dataset(store, label_spec())
    get, paths = Store.get, store.list("")

    def denied(self: Store, path: str) -> bytes:
        if path == label_path(0):
            raise refusal(f"cannot read {self.url(path)}", OSError(number, "refused by the disk"))
        return get(self, path)

    monkeypatch.setattr(Store, "get", denied)
    with pytest.raises(StoreError, match=label_path(0)):
        verify.verify_dataset(store, "d", delete=True)
    assert store.list("") == paths
