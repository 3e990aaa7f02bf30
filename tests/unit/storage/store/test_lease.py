"""The lease: one owner at a time, dead ones are replaced; concurrent ones are in test_interleavings.py."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
import time
from unittest.mock import Mock

import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.storage.store.errors import LeaseLost
from mcvrp.storage.store.lease import Lease, active_owner, holding
from mcvrp.storage.store.store import Store, StoreUnavailable

FOLDER, WHAT = "d/.lease", "dataset 'd' is being labelled"
TTL = 0.6


def kept(store: Store) -> dict[int, int]:
    """Sizes of the numbered files."""
    return {number: file.size for number, file in store.numbered(FOLDER).items()}


def test_an_ended_lease_is_empty_and_hidden(store: Store) -> None:
    for number in (1, 2):
        with holding(store, FOLDER, WHAT) as lease:
            lease.check()
            assert kept(store)[number]
            assert active_owner(store, FOLDER)
        assert kept(store) == dict.fromkeys(range(1, number + 1), 0)
        assert active_owner(store, FOLDER) is None
    assert store.list("") == []


KILLED = (
    "import os, sys; from mcvrp.storage.store.lease import holding\n"
    "from mcvrp.storage.store.store import Store\n"
    f"with holding(Store(sys.argv[1]), {FOLDER!r}, 'x'): os.kill(os.getpid(), 9)"
)


def test_a_killed_owner_is_replaced_once_its_lease_is_stale(store: Store) -> None:
    assert subprocess.run([sys.executable, "-c", KILLED, store.uri]).returncode == -9
    (killed,) = store.numbered(FOLDER).values()
    with holding(store, FOLDER, WHAT, ttl=TTL) as lease:
        assert store.numbered(FOLDER)[2].modified - killed.modified >= TTL
        lease.check()
    assert kept(store) == {1: killed.size, 2: 0}


@pytest.mark.parametrize("minutes", [-10, 10])
def test_only_the_clock_of_the_store_counts(
    store: Store, monkeypatch: pytest.MonkeyPatch, minutes: int
) -> None:
    """A process whose own clock is ten minutes off waits for an owner at work, and replaces a dead one."""
    real = time.time
    with monkeypatch.context() as patch, holding(store, FOLDER, WHAT, ttl=TTL):
        patch.setattr(time, "time", lambda: real() + 60 * minutes)
        with pytest.raises(McvrpError, match="wait for it"):
            Lease.acquire(store, FOLDER, WHAT, 20.0)
    assert subprocess.run([sys.executable, "-c", KILLED, store.uri]).returncode == -9
    monkeypatch.setattr(time, "time", lambda: real() + 60 * minutes)
    Lease.acquire(store, FOLDER, WHAT, TTL).end()
    assert max(kept(store)) == 3


@pytest.mark.parametrize("content", [b"\xff\x1b[2J", b"[" * 10_000])
def test_an_owner_that_cannot_be_read_is_replaced_too(store: Store, content: bytes) -> None:
    store.put(f"{FOLDER}/000041", content)
    with holding(store, FOLDER, WHAT, ttl=TTL):
        assert max(kept(store)) == 42


def test_an_owner_keeps_its_lease_young(store: Store) -> None:
    with holding(store, FOLDER, WHAT, ttl=TTL) as lease:
        (first,) = store.numbered(FOLDER).values()
        time.sleep(2 * TTL)
        (file,) = store.numbered(FOLDER).values()
        assert file.modified > first.modified
        lease.check()


@pytest.mark.parametrize("copied", [False, True])
def test_an_owner_that_sees_a_higher_number_stops(store: Store, copied: bool) -> None:
    with holding(store, FOLDER, WHAT) as lease:
        one = pickle.loads(pickle.dumps(lease)) if copied else lease
        one.confirm()
        store.put(f"{FOLDER}/000002", store.get(f"{FOLDER}/000001"))
        for use_lease in (one.confirm, one.check):
            with pytest.raises(
                LeaseLost, match=r"000002 belongs to process \d+ .*: .* twice, this one stops"
            ):
                use_lease()
    assert max(kept(store)) == 2
    assert kept(store)[2]  # that of the successor


def test_the_keeper_notices_a_successor(store: Store) -> None:
    with holding(store, FOLDER, WHAT, ttl=TTL) as lease:
        store.put(f"{FOLDER}/000002", b"another")
        time.sleep(TTL)
        with pytest.raises(LeaseLost):
            lease.check()


def test_a_store_that_does_not_answer_confirms_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with holding(store, FOLDER, WHAT) as lease:
        with monkeypatch.context() as patch:
            patch.setattr(Store, "put", Mock(side_effect=StoreUnavailable("no answer")))
            with pytest.raises(StoreUnavailable):
                lease.confirm()
        lease.confirm()


def test_the_end_of_the_work_does_not_wait_long_for_a_silent_store(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcvrp.storage.store.lease._RELEASE_SECONDS", 0.1)
    end, put = threading.Event(), Store.put
    with monkeypatch.context() as patch:
        with holding(store, FOLDER, WHAT):
            patch.setattr(Store, "put", lambda *arguments: end.wait(60) and put(*arguments))
        assert kept(store)[1]
        end.set()
        (keeper,) = (thread for thread in threading.enumerate() if thread.name == f"lease {FOLDER}")
        keeper.join(20)
    assert kept(store) == {1: 0}
