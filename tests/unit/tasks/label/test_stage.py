"""A run of labelling: it reads no footer without need, and cancels workers that hang."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import ray

from mcvrp.storage import layout
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.card import write_card
from mcvrp.tasks.label.driver import Driver, _Task
from mcvrp.tasks.label.plan import ShardJob
from mcvrp.tasks.label.stage import label_missing, labels_missing
from mcvrp.tasks.label.work import Unit, UnitCount
from mcvrp.tasks.support.ray_session import ClusterLost
from tests.support.counted_store import count_requests
from tests.support.datasets import CITY, age, count_footers, everything, label_spec, make_dataset


@pytest.mark.parametrize("listed", [True, False])
def test_a_run_with_nothing_to_do_reads_no_footer(
    store: Store, monkeypatch: pytest.MonkeyPatch, listed: bool
) -> None:
    """Neither the check before it nor the run; where the list may be out of date, each reads each once."""
    make_dataset(store, label_spec())
    assert label_missing(store, CITY, label_spec()).new == 0  # writes the card
    age(store, "d", 10 if listed else -1000)
    before, footers = everything(store), count_footers(monkeypatch)
    assert labels_missing(store, CITY, label_spec()) == 0
    assert sorted(footers.values()) == ([] if listed else [1] * 4)
    assert label_missing(store, CITY, label_spec()).new == 0
    assert sorted(footers.values()) == ([] if listed else [2] * 4)
    assert everything(store) == before


def test_the_requests_of_a_run_with_nothing_to_do_do_not_grow_with_the_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests, counts = count_requests(monkeypatch), []
    for largest in (21, 26):
        store, spec = Store.open(tmp_path / str(largest)), label_spec(largest=largest, count=2)
        make_dataset(store, spec)
        label_missing(store, CITY, spec)  # writes the card
        age(store, "d")
        with requests.counted() as counted:
            labels_missing(store, CITY, spec)
            label_missing(store, CITY, spec)
        counts.append(counted.total())
    assert counts[1] <= counts[0] + 1


@pytest.mark.parametrize("writes", range(7))
def test_a_card_is_up_to_date_after_a_kill(
    store: Store, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    """A dataset is extended, and the run killed before the card or at any of its six writes."""
    make_dataset(store, label_spec(count=6))
    write_card(store, CITY, "d")
    make_dataset(store, label_spec())
    put, left = Store.put, [None] * writes

    def killed(store: Store, path: str, data: bytes) -> None:
        if not left:
            raise KeyboardInterrupt
        left.pop()
        put(store, path, data)

    with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
        patch.setattr(Store, "put", killed)
        write_card(store, CITY, "d")
    label_missing(store, CITY, label_spec())
    resumed = everything(store)
    for path in (layout.card("d"), layout.label_statistics("d"), layout.label_city("d")):
        store.delete(path)
    label_missing(store, CITY, label_spec())
    assert everything(store) == resumed


@pytest.mark.parametrize("looked_ago", [0.0, 4_000.0])
def test_while_the_driver_waited_nobody_hung(looked_ago: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A merge of 4,000 s is cancelled, unless the driver has waited for the store all the time."""
    cancelled: list[Any] = []
    monkeypatch.setattr(ray, "cancel", lambda reference, force: cancelled.append(reference))
    nothing: Any = None
    dataset: Any = SimpleNamespace(store=nothing)
    driver = Driver(dataset, nothing)
    task = _Task([ShardJob(20, 0, 0, 5, [], [], frozenset())], heard=time.monotonic() - 4_000)
    reference: Any = object()
    driver._in_flight[reference] = task
    driver._looked = time.monotonic() - looked_ago
    driver._cancel_hanging()
    assert cancelled == ([] if looked_ago else [reference])


def test_labels_that_units_had_stored_count_if_the_cluster_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next survey finds them; without them a cluster that is lost twice would seem to do nothing."""
    dataset: Any = SimpleNamespace(store=None, source=SimpleNamespace(city=None))
    nothing, driver = Mock(done=0), Driver(dataset, dataset)
    lease: Any = SimpleNamespace(check=lambda: setattr(driver, "_running", UnitCount(7, 5)))
    driver.lease = lease
    for name in ("_seconds", "_show", "_tasks"):
        monkeypatch.setattr(Driver, name, Mock(return_value=1.0))
    monkeypatch.setattr(ray, "put", Mock())
    monkeypatch.setattr("mcvrp.tasks.label.driver.require_cluster", Mock(side_effect=ClusterLost("gone")))
    with pytest.raises(ClusterLost):
        driver.run(nothing, 2, nothing)
    assert driver.labelled == 5


def test_what_is_queued_behind_others_does_not_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit may wait for hours for another to end; the other has to give a sign of life now and then."""
    cancelled: list[Any] = []
    monkeypatch.setattr(ray, "cancel", lambda reference, force: cancelled.append(reference))
    dataset: Any = SimpleNamespace(store=None)
    running, queued, lease = object(), object(), dataset
    driver = Driver(dataset, lease)
    now, unit = time.monotonic(), Unit(20, 0, 400, seconds=2_000.0)
    started = _Task([], unit, heard=now - 1.9 * unit.limit, started=True)
    in_flight: Any = {running: started, queued: _Task([], unit, heard=now - 40_000)}
    driver._in_flight = in_flight
    driver._cancel_hanging()
    assert cancelled == []
    started.heard -= 0.2 * unit.limit
    driver._cancel_hanging()
    assert cancelled == [running]
