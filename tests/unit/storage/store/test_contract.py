"""The contract of an object store: two writers who race find out servers that one by one look well."""

from __future__ import annotations

import hashlib
import threading
import time

import pytest

from mcvrp.storage.store.contract import main, race
from mcvrp.storage.store.errors import StoreError


class Server:
    """Objects in memory that keep the contract, one step at a time."""

    def __init__(self) -> None:
        self.there: dict[str, bytes] = {}
        self.lock = threading.Lock()

    def write_new(self, path: str, data: bytes) -> bool:
        with self.lock:
            return self.put(path, data, free=path not in self.there)

    def swap(self, path: str, data: bytes, tag: str) -> bool:
        with self.lock:
            return self.put(path, data, free=self.read_tagged(path)[1] == tag)

    def put(self, path: str, data: bytes, *, free: bool) -> bool:
        if free:
            self.there[path] = data
        return free

    def read_tagged(self, path: str) -> tuple[bytes, str]:
        data = self.there[path]
        return data, hashlib.sha256(data).hexdigest()

    def delete(self, path: str) -> None:
        self.there.pop(path, None)


class LooksThenWrites(Server):
    """Sees whether the condition holds, and writes a moment later: alone, nobody notices."""

    def write_new(self, path: str, data: bytes) -> bool:
        free = path not in self.there
        time.sleep(0.05)
        return self.put(path, data, free=free)


class SwapsForAll(Server):
    """Keeps If-None-Match, and looks before it writes at If-Match."""

    def swap(self, path: str, data: bytes, tag: str) -> bool:
        free = self.read_tagged(path)[1] == tag
        time.sleep(0.05)
        return self.put(path, data, free=free)


class KnowsNoTagOfParts(Server):
    """Refuses every If-Match of what is larger than one of its parts."""

    def swap(self, path: str, data: bytes, tag: str) -> bool:
        return len(data) <= 1000 and super().swap(path, data, tag)


class CutsShort(Server):
    """Keeps what fits into one of its parts."""

    def put(self, path: str, data: bytes, *, free: bool) -> bool:
        return super().put(path, data[:1000], free=free)


@pytest.mark.parametrize("size", [1, 5000])
def test_a_server_that_keeps_it_is_taken(size: int) -> None:
    """And nothing is left there."""
    server = Server()
    race(server, "a", size)
    assert not server.there


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
def test_a_server_that_does_not_is_refused(server: Server, size: int, words: str) -> None:
    """In a sentence, also where each request by itself is answered well; nothing is left there."""
    assert server.write_new("sequential", b"")
    assert not server.write_new("sequential", b"")
    with pytest.raises(StoreError, match=words):
        race(server, "a", size)
    assert set(server.there) == {"sequential"}


@pytest.mark.parametrize("arguments", [[], ["store"], ["s3://a", "s3://b"]])
def test_it_asks_for_one_address(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is done."""
    assert main(arguments) == 2
    assert "give the address of an object store" in capsys.readouterr().err
