"""Verification of a file that the store does not give: it may be good."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext

import pytest

from mcvrp.storage.store.errors import StoreError, refusal
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label import verify
from tests.support.datasets import label_path, label_spec, make_dataset


def _one_by_one(
    work: Callable[..., object], paths: Iterable[str], _workers: int, shared: object
) -> Iterator[tuple[str, object]]:
    return ((path, work(path, shared)) for path in paths)


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "windowed", _one_by_one)
    monkeypatch.setattr(verify, "ray_session", lambda workers: nullcontext(1))


@pytest.mark.parametrize("name", ["n=020/copy.parquet", "n=020/rows-00000010-00000016.parquet"])
def test_a_whole_file_of_another_name_is_kept_and_the_others_are_verified(store: Store, name: str) -> None:
    """Also if the name is one that the dataset's own files have."""
    make_dataset(store, label_spec())
    foreign = f"labels/d/data/{name}"
    store.put(foreign, store.get(label_path(0)))
    for delete in (False, True):
        report = verify.verify_dataset(store, "d", delete=delete)
        [fault] = report.faults
        assert (fault.path, fault.misnamed) == (foreign, True)
        assert f"rename it to {label_path(0)}" in fault.what
        assert (report.files, report.missing, store.exists(foreign)) == (4, (), True)
        assert not report.deleted


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
