"""A run of labelling that has nothing to do: it knows that from the list of shards."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.stage import label_missing, labels_missing
from tests.support.datasets import CITY, age, count_footers, everything, label_spec, make_dataset


@pytest.mark.parametrize("listed", [True, False])
def test_a_run_with_nothing_to_do_reads_no_footer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listed: bool
) -> None:
    """Neither the check before it nor the run; where the list may be out of date, each reads each once."""
    store = Store.open(tmp_path)
    make_dataset(store, label_spec())
    assert label_missing(store, CITY, label_spec()).new == 0  # writes the card
    age(store, "d", 10 if listed else -1000)
    before, footers = everything(store), count_footers(monkeypatch)
    assert labels_missing(store, CITY, label_spec()) == 0
    assert sorted(footers.values()) == ([] if listed else [1] * 4)
    assert label_missing(store, CITY, label_spec()).new == 0
    assert sorted(footers.values()) == ([] if listed else [2] * 4)
    assert everything(store) == before
