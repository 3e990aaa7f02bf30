"""The lease: one holder at a time, dead ones are replaced, a loss is noticed."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.storage.store.lease import BEATS, Holder, Lease, holding
from mcvrp.storage.store.store import Store, StoreUnavailable

PATH, WHAT = "d/lease.json", "dataset 'd' is being labelled"
TTL = 0.4


@pytest.fixture
def awake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail at the first wait for a heartbeat."""
    monkeypatch.setattr("mcvrp.storage.store.lease.time.sleep", lambda seconds: pytest.fail("it waits"))


def write(store: Store, holder: Holder) -> None:
    store.put(PATH, holder.encode())


def elsewhere() -> Holder:
    """A holder on another machine."""
    return replace(Holder.here(), host="far", machine="another", process=7)


def test_a_lease_is_removed_at_the_end(store: Store) -> None:
    with holding(store, PATH, WHAT) as lease:
        assert store.get_json(PATH) == json.loads(Holder.decode(store.get(PATH)).encode())
        assert store.get_json(PATH)["process"] == os.getpid()
        lease.check()
    assert store.list("") == []


@pytest.mark.usefixtures("awake")
def test_a_living_holder_on_this_machine_is_refused_at_once(store: Store) -> None:
    with holding(store, PATH, WHAT) as lease:
        refused = rf"{WHAT} by process {os.getpid()} on .* since .*: wait for it"
        with pytest.raises(McvrpError, match=refused), holding(store, PATH, WHAT):
            pass
        lease.check()


@pytest.mark.usefixtures("awake")
def test_a_killed_holder_is_replaced_at_once(store: Store) -> None:
    code = (
        "import os, sys; from mcvrp.storage.store.lease import holding; from mcvrp.storage import Store\n"
        f"with holding(Store(sys.argv[1]), {PATH!r}, 'x'): os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code, store.uri]).returncode == -9
    assert store.exists(PATH)
    with holding(store, PATH, WHAT) as lease:
        lease.check()


@pytest.mark.usefixtures("awake")
def test_a_reused_process_number_is_told_apart_by_its_start(store: Store) -> None:
    """A process with the number of the holder runs, but it is not this one: only the start differs."""
    write(store, replace(Holder.here(), process=os.getppid(), started="1"))
    with holding(store, PATH, WHAT) as lease:
        lease.check()


@pytest.mark.usefixtures("awake")
def test_a_holder_of_another_user_in_a_hidden_process_is_refused(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With /proc mounted with hidepid=2, only a signal shows that it exists."""
    write(store, replace(Holder.here(), process=7))
    kill = Mock(side_effect=PermissionError)
    monkeypatch.setattr(os, "kill", kill)
    read_text = Path.read_text

    def hidden(path: Path) -> str:
        if path == Path("/proc/7/stat"):
            raise FileNotFoundError(path)
        return read_text(path)

    monkeypatch.setattr(Path, "read_text", hidden)
    with pytest.raises(McvrpError, match="by process 7 on"), holding(store, PATH, WHAT):
        pass
    kill.assert_called_with(7, 0)


def test_a_living_holder_elsewhere_is_refused(store: Store, caplog: pytest.LogCaptureFixture) -> None:
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
    "content", [elsewhere().encode(), b"{}", b"no JSON"], ids=["holder", "fields", "bytes"]
)
def test_a_silent_holder_on_another_machine_is_replaced(store: Store, content: bytes) -> None:
    store.put(PATH, content)
    began = time.monotonic()
    with holding(store, PATH, WHAT, ttl=TTL) as lease:
        assert time.monotonic() - began >= TTL
        lease.check()
    assert store.list("") == []


def test_a_holder_renews_its_lease(store: Store) -> None:
    with holding(store, PATH, WHAT, ttl=TTL) as lease:
        deadline = time.monotonic() + 20
        while store.get_json(PATH)["beats"] < 2 * BEATS:
            assert time.monotonic() < deadline
            time.sleep(TTL)
        lease.check()


def check_until(lease: Lease, deadline: float) -> None:
    while time.monotonic() < deadline:
        lease.check()
        time.sleep(0.02)


@pytest.mark.parametrize("successor", [elsewhere(), None])
def test_a_lost_lease_is_noticed_and_the_successor_keeps_it(store: Store, successor: Holder | None) -> None:
    with holding(store, PATH, WHAT, ttl=TTL) as lease:
        if successor:
            write(store, successor)
        else:
            store.delete(PATH)
        with pytest.raises(McvrpError, match=r"now names .* far" if successor else "has been removed"):
            check_until(lease, time.monotonic() + 20)
    assert store.exists(PATH) == bool(successor)


def test_one_of_many_concurrent_processes_replaces_a_dead_holder(store: Store) -> None:
    write(store, replace(Holder.here(), process=os.getppid(), started="1"))
    gate, refused = threading.Barrier(8), threading.Semaphore(0)

    def attempt(_: int) -> bool:
        gate.wait()
        try:
            with holding(store, PATH, WHAT):
                return all(refused.acquire(timeout=20) for _ in range(7))
        except McvrpError:
            refused.release()
            return False

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(attempt, range(8))) == [False] * 7 + [True]


def test_a_copy_in_another_process_confirms_the_same_lease(store: Store) -> None:
    with holding(store, PATH, WHAT) as lease:
        copy = pickle.loads(pickle.dumps(lease))
        for count, one in enumerate((copy, lease, lease, copy, copy, lease), 1):
            one.confirm()
            assert store.get_json(PATH)["beats"] == count
    assert store.list("") == []


@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize("successor", [elsewhere().encode(), None])
def test_a_lost_lease_is_not_confirmed(store: Store, copied: bool, successor: bytes | None) -> None:
    with holding(store, PATH, WHAT) as lease:
        confirmed = pickle.loads(pickle.dumps(lease)) if copied else lease
        store.delete(PATH)
        if successor:
            store.put(PATH, successor)
        with pytest.raises(McvrpError, match="now names" if successor else "has been removed"):
            confirmed.confirm()
    assert store.find(PATH) == successor


def test_a_silent_store_confirms_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with holding(store, PATH, WHAT) as lease:
        with monkeypatch.context() as patch:
            patch.setattr(Store, "find_tagged", Mock(side_effect=StoreUnavailable("no answer")))
            with pytest.raises(StoreUnavailable):
                lease.confirm()
        lease.confirm()


def test_a_lease_is_removed_after_a_heartbeat_that_failed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store answers again at the end of the work, before the next heartbeat."""
    failed, swap = threading.Event(), Store.swap

    def swap_later(store: Store, path: str, data: bytes, tag: str) -> bool:
        if not failed.is_set():
            failed.set()
            raise StoreUnavailable("no answer")
        return swap(store, path, data, tag)

    monkeypatch.setattr(Store, "swap", swap_later)
    with holding(store, PATH, WHAT, ttl=2.0):
        assert failed.wait(20)
    assert store.list("") == []


def test_a_lease_is_removed_although_a_heartbeat_hangs(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    hanging, end, swap = threading.Event(), threading.Event(), Store.swap

    def swap_or_hang(store: Store, path: str, data: bytes, tag: str) -> bool:
        if not hanging.is_set():
            hanging.set()
            assert end.wait(60)
        return swap(store, path, data, tag)

    monkeypatch.setattr(Store, "swap", swap_or_hang)
    with holding(store, PATH, WHAT, ttl=0.4):
        assert hanging.wait(20)
    assert store.list("") == []
    end.set()
    (keeper,) = (thread for thread in threading.enumerate() if thread.name == f"lease {PATH}")
    keeper.join(20)
    assert store.list("") == []


def test_the_end_of_the_work_does_not_wait_long_for_a_silent_store(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcvrp.storage.store.lease._RELEASE_SECONDS", 0.1)
    end = threading.Event()
    with monkeypatch.context() as patch:
        with holding(store, PATH, WHAT):
            patch.setattr(Store, "swap", lambda *arguments: end.wait(60))
        assert store.exists(PATH)
    with holding(store, PATH, WHAT) as lease:  # released, so that this process takes it at once
        (remover,) = (thread for thread in threading.enumerate() if thread.name == f"release {PATH}")
        end.set()
        remover.join(20)
        lease.confirm()
