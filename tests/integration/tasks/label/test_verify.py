"""Verification with real Ray and real HGS: what is corrupt is named and removed, and labelled again."""

from __future__ import annotations

import os

import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.cities import save_city
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.provenance import FIELD
from mcvrp.storage.store.errors import StoreError
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.stage import label_missing
from mcvrp.tasks.label.verify import verify_dataset
from mcvrp.tasks.support.ray_session import windowed
from tests.support.datasets import (
    CITY,
    dearer,
    everything,
    in_row,
    label_path,
    label_spec,
    rewritten,
)

FIRST, SECOND = label_path(0), label_path(1)  # rows 0-5 and 6-9


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
    labels = Dataset.open(store, "d")
    tables = [(n, table) for n in labels.sizes() for table in labels.read_rows(n)]
    return {(n, row["index"]): row["runtime"] for n, table in tables for row in table.to_pylist()}


def test_a_right_dataset_is_verified(store: Store) -> None:
    before = everything(store)
    report = verify_dataset(store, "d", delete=True)
    assert report.good
    assert (report.rows, report.files) == (20, 4)
    assert everything(store) == before


def test_what_is_corrupt_is_named_removed_and_made_again(store: Store) -> None:
    """Its rows are solved again, and no others."""
    before, content = runtimes(store), Dataset.open(store, "d").fingerprint()
    store.put(SECOND, rewritten(store.get(SECOND), in_row(1, dearer)))
    assert not verify_dataset(store, "d").good
    assert store.exists(SECOND)
    report = verify_dataset(store, "d", delete=True)
    assert [fault.path for fault in report.faults] == [SECOND]
    assert "at i=7 of n=20" in report.faults[0].what
    assert not store.exists(SECOND)
    label_missing(store, CITY, label_spec())
    after = runtimes(store)
    assert {key for key in before if before[key] != after[key]} == {(20, i) for i in range(6, 10)}
    assert Dataset.open(store, "d").fingerprint() == content
    assert verify_dataset(store, "d").good


def test_a_file_with_rows_of_another_is_removed(store: Store) -> None:
    """As two drivers with other numbers of instances might leave it; labelling fills the gap."""
    label_missing(store, CITY, label_spec(dataset="other", largest=20, shard_rows=8))
    other = layout.label_file("other", 20, 0, 8)
    store.put(other.replace("/other/", "/d/"), store.get(other))
    store.delete(FIRST)
    report = verify_dataset(store, "d", delete=True)
    assert [fault.path for fault in report.faults] == [SECOND]
    assert label_missing(store, CITY, label_spec()).new == 2
    assert verify_dataset(store, "d").good


@pytest.mark.parametrize("name", ["manifest.json", "README.md"])
@pytest.mark.parametrize("data", [None, b"garbage"])
def test_what_is_derived_is_made_anew(store: Store, name: str, data: bytes | None) -> None:
    """Lost or corrupt, the labels are still verified, and labelling brings the same bytes back."""
    path = f"{layout.label_dir('d')}/{name}"
    before = everything(store)
    if data is None:
        store.delete(path)
    else:
        store.put(path, data)
    report = verify_dataset(store, "d", delete=True)
    assert (report.rows, report.missing) == (20, ())
    assert report.good
    label_missing(store, CITY, label_spec())
    assert everything(store) == before


def test_a_spec_that_is_lost_or_corrupt_is_named(store: Store) -> None:
    path = layout.label_spec("d")
    whole = store.get_json(path)
    whole.pop(FIELD)  # who made the labels is no longer known
    for data in (None, b"{"):
        store.delete(path) if data is None else store.put(path, data)
        with pytest.raises(McvrpError, match=f"{path}.* mcvrp label"):
            verify_dataset(store, "d")
        if data is not None:
            with pytest.raises(McvrpError, match=f"{path} is not a spec of labels .*: remove it"):
                label_missing(store, CITY, label_spec())
            store.delete(path)
        label_missing(store, CITY, label_spec())
        assert store.get_json(path) == whole
        assert verify_dataset(store, "d").good


def test_what_cannot_be_verified_is_refused(store: Store) -> None:
    with pytest.raises(McvrpError, match="there are no labels of dataset 'e'"):
        verify_dataset(store, "e")
    store.delete("cities")
    with pytest.raises(McvrpError, match=f"no city in .* has the id {CITY.city_id}"):
        verify_dataset(store, "d")


def _worked(item: int, shared: int) -> int:
    if item == 3:
        os._exit(1)
    return item * shared


@pytest.mark.slow
def test_a_worker_that_dies_takes_no_other_along() -> None:
    """An item that kills its reader each time has that as its answer; the other items have theirs."""
    answers = dict(windowed(_worked, range(8), 2, 10))
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
        list(windowed(_refused, range(8), 2, 10))
    answers = dict(windowed(_refused, range(8), 2, 10, refusals=True))
    assert str(answers.pop(3)) == "not this one"
    assert answers == {k: k for k in range(8) if k != 3}
    with pytest.raises(StoreError, match="no space left"):
        list(windowed(_refused, range(8), 2, 0, refusals=True))
