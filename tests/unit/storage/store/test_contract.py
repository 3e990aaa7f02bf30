"""The contract of an object store: two racing writers detect servers that break it."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Sequence

import pytest

from mcvrp.storage.store.contract import main, prove, race
from mcvrp.storage.store.errors import StoreError


class Server:
    """Objects in memory that keep the contract, one step at a time."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.lock = threading.Lock()

    def write_new(self, path: str, data: bytes) -> bool:
        with self.lock:
            return self.put(path, data, free=path not in self.objects)

    def swap(self, path: str, data: bytes, tag: str) -> bool:
        with self.lock:
            return self.put(path, data, free=self.read_tagged(path)[1] == tag)

    def put(self, path: str, data: bytes, *, free: bool) -> bool:
        if free:
            self.objects[path] = data
        return free

    def read_tagged(self, path: str) -> tuple[bytes, str]:
        data = self.objects[path]
        return data, hashlib.sha256(data).hexdigest()

    def delete_files(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.objects.pop(path, None)


class LooksThenWrites(Server):
    """Writes a moment after it has seen that the condition holds: a single writer does not notice."""

    def write_new(self, path: str, data: bytes) -> bool:
        free = path not in self.objects
        time.sleep(0.05)
        return self.put(path, data, free=free)


class SwapsForAll(Server):
    """The same for If-Match."""

    def swap(self, path: str, data: bytes, tag: str) -> bool:
        free = self.read_tagged(path)[1] == tag
        time.sleep(0.05)
        return self.put(path, data, free=free)


class KnowsNoTagOfParts(Server):
    """Refuses every If-Match of objects larger than a part."""

    def swap(self, path: str, data: bytes, tag: str) -> bool:
        return len(data) <= 1000 and super().swap(path, data, tag)


class CutsShort(Server):
    """Stores only the first part."""

    def put(self, path: str, data: bytes, *, free: bool) -> bool:
        return super().put(path, data[:1000], free=free)


@pytest.mark.parametrize("size", [1, 5000])
def test_a_server_that_keeps_the_contract_is_accepted(size: int) -> None:
    server = Server()
    race(server, "a", size)
    assert not server.objects


@pytest.mark.parametrize(
    ("server", "size", "words"),
    [
        (LooksThenWrites(), 1, r"\(If-None-Match\): both writers"),
        (SwapsForAll(), 1, r"\(If-Match\): both writers"),
        (KnowsNoTagOfParts(), 5000, r"\(If-Match\): neither of two writers of 5,001 bytes"),
        (CutsShort(), 5000, r"whole objects \(If-None-Match\): 5,000 bytes"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_server_that_breaks_the_contract_is_refused(server: Server, size: int, words: str) -> None:
    assert server.write_new("sequential", b"")
    assert not server.write_new("sequential", b"")
    with pytest.raises(StoreError, match=words):
        race(server, "a", size)
    assert set(server.objects) == {"sequential"}


def test_what_another_test_has_left_or_tests_now_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    class Bucket(Server):
        def make_bucket(self) -> None: ...

    server = Bucket()
    server.objects[".race-10-0"] = b"left by a test that was killed"
    monkeypatch.setattr("mcvrp.storage.store.s3.connect", lambda *_: server)
    prove("s3://bucket", {10: 1})
    assert set(server.objects) == {".race-10-0"}


@pytest.mark.parametrize("arguments", [[], ["store"], ["s3://a", "s3://b"]])
def test_the_command_takes_one_address(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert "give the address of an object store" in capsys.readouterr().err
