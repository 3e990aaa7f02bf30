"""The lease: one holder at a time, the dead are replaced, the living are not, and a loss is noticed."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.storage.store.lease import BEATS, Holder, Lease, holding
from mcvrp.storage.store.store import Store, StoreUnavailable

PATH, WHAT = "d/lease.json", "dataset 'd' is being labelled"
TTL = 0.4


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path)


@pytest.fixture
def awake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for a sign of life fails."""
    monkeypatch.setattr("mcvrp.storage.store.lease.time.sleep", lambda seconds: pytest.fail("it waits"))


def write(store: Store, holder: Holder) -> None:
    store.put(PATH, holder.encode())


def elsewhere() -> Holder:
    """A holder of which this machine knows nothing."""
    return replace(Holder.here(), host="far", machine="another", process=7)


def test_a_lease_is_there_while_it_is_held_and_gone_afterwards(store: Store) -> None:
    """Others see who holds it; nothing is left."""
    with holding(store, PATH, WHAT) as lease:
        there = store.get_json(PATH)
        assert there["process"] == os.getpid()
        lease.check()
    assert store.list("") == []


@pytest.mark.usefixtures("awake")
def test_the_living_are_named_and_not_disturbed(store: Store) -> None:
    """A second holder in the same machine is refused at once."""
    with holding(store, PATH, WHAT) as lease:
        refused = rf"{WHAT} by process {os.getpid()} on .* since .*: wait for it"
        with pytest.raises(McvrpError, match=refused), holding(store, PATH, WHAT):
            pass
        lease.check()


@pytest.mark.usefixtures("awake")
def test_who_was_killed_is_replaced_at_once(store: Store) -> None:
    """A process of this machine that is no more holds nothing, though its file is there."""
    code = (
        "import os, sys; from mcvrp.storage.store.lease import holding; from mcvrp.storage import Store\n"
        f"with holding(Store(sys.argv[1]), {PATH!r}, 'x'): os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code, store.uri]).returncode == -9
    assert store.exists(PATH)
    with holding(store, PATH, WHAT) as lease:
        lease.check()


def test_a_process_that_only_has_the_dead_ones_number_is_not_taken_for_it(store: Store) -> None:
    """Process numbers are used again: the start tells them apart."""
    write(store, replace(Holder.here(), started="1"))
    with holding(store, PATH, WHAT, ttl=30):
        pass


def test_a_living_holder_elsewhere_is_refused(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """It shows signs of life, so we wait no longer."""
    write(store, elsewhere())
    end = threading.Event()

    def live() -> None:
        beats = 0
        while not end.wait(0.02):
            beats += 1
            write(store, replace(elsewhere(), beats=beats))

    thread = threading.Thread(target=live)
    thread.start()
    try:
        refused = pytest.raises(McvrpError, match="by process 7 on far")
        with refused, holding(store, PATH, WHAT, ttl=8.0):
            pass
    finally:
        end.set()
        thread.join()
    (line,) = caplog.messages
    assert "waiting" in line
    assert Holder.decode(store.get(PATH)).host == "far"


@pytest.mark.parametrize(
    "there", [elsewhere().encode(), b"{}", b"no JSON"], ids=["holder", "fields", "bytes"]
)
def test_a_silent_holder_elsewhere_is_replaced(store: Store, there: bytes) -> None:
    """Silence for the time to live, by our own clock, is death, whatever the file says."""
    store.put(PATH, there)
    began = time.monotonic()
    with holding(store, PATH, WHAT, ttl=TTL) as lease:
        assert time.monotonic() - began >= TTL
        lease.check()
    assert store.list("") == []


def test_a_holder_keeps_its_lease_longer_than_the_time_to_live(store: Store) -> None:
    """It shows signs of life by itself, which others can see."""
    with holding(store, PATH, WHAT, ttl=TTL) as lease:
        deadline = time.monotonic() + 20
        while store.get_json(PATH)["beats"] < 2 * BEATS:
            assert time.monotonic() < deadline
            time.sleep(TTL)
        lease.check()


@pytest.mark.parametrize("by", ["another", "none"])
def test_a_lost_lease_is_noticed_and_left_alone(store: Store, by: str) -> None:
    """A holder taken for dead hears of it, and does not remove the file of its successor."""
    heard = ""

    def lost(lease: Lease) -> bool:
        nonlocal heard
        try:
            lease.check()
        except McvrpError as error:
            heard = str(error)
        return bool(heard)

    with holding(store, PATH, WHAT, ttl=TTL) as lease:
        if by == "another":
            write(store, elsewhere())
        else:
            store.delete(PATH)
        deadline = time.monotonic() + 20
        while not lost(lease):
            assert time.monotonic() < deadline
            time.sleep(0.02)
    assert ("far" if by == "another" else "has been removed") in heard
    assert store.exists(PATH) == (by == "another")


def test_of_many_who_try_at_once_one_holds(store: Store) -> None:
    """Also where all of them find the file of one who has died."""
    write(store, replace(Holder.here(), started="1"))
    holders: list[int] = []
    refused: list[str] = []
    gate, done = threading.Barrier(8), threading.Event()

    def attempt(k: int) -> None:
        gate.wait()
        try:
            with holding(store, PATH, WHAT):
                holders.append(k)
                done.wait(20)
        except McvrpError as error:
            refused.append(str(error))
            if len(refused) == 7:
                done.set()

    threads = [threading.Thread(target=attempt, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(holders), len(refused)) == (1, 7)


def test_a_holder_comes_back_from_its_bytes() -> None:
    """The holder that is read is the one that was written."""
    holder = Holder.here()
    assert Holder.decode(holder.encode()) == holder
    assert json.loads(holder.encode()) == asdict(holder)


def test_a_copy_in_another_process_confirms_the_same_lease(store: Store) -> None:
    """Each confirmation is a sign of life; neither the copy nor the original takes it for a rival's."""
    with holding(store, PATH, WHAT) as lease:
        copy = pickle.loads(pickle.dumps(lease))
        for count, one in enumerate((copy, lease, lease, copy, copy, lease), 1):
            one.confirm()
            assert store.get_json(PATH)["beats"] == count
    assert store.list("") == []


@pytest.mark.parametrize("copied", [False, True])
def test_a_lost_lease_is_not_confirmed(store: Store, copied: bool) -> None:
    """Who confirms hears at once of another holder or a removed file, and has renewed nothing."""
    for there in (elsewhere().encode(), None):
        with holding(store, PATH, WHAT) as lease:
            confirmed = pickle.loads(pickle.dumps(lease)) if copied else lease
            store.delete(PATH)
            if there:
                store.put(PATH, there)
            with pytest.raises(McvrpError, match="now names" if there else "has been removed"):
                confirmed.confirm()
        assert store.list("") == ([PATH] if there else [])
        assert there is None or store.get(PATH) == there
        store.delete(PATH)


def test_a_silent_store_confirms_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an answer nobody knows whose the lease is: an error that is waited out, not a loss."""

    def silent(self: Store, path: str) -> tuple[bytes, str]:
        raise StoreUnavailable("no answer")

    with holding(store, PATH, WHAT) as lease:
        with monkeypatch.context() as patch:
            patch.setattr(Store, "get_tagged", silent)
            with pytest.raises(StoreUnavailable):
                lease.confirm()
        lease.confirm()
