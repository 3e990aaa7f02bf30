"""Model of an object store in memory: its clock, its faults and the order of its requests are the test's.

The requests are those of `storage.store.store.Store`, which finds the model in the place of obstore.
Several actors, each a thread, make them in turns.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import obstore
import pytest
from obstore.exceptions import AlreadyExistsError, GenericError
from obstore.store import MemoryStore

from mcvrp.storage.store import store as stores
from mcvrp.storage.store.store import Store

Fault = Literal["", "lost", "refused", "retried"]
_TURN = threading.local()


class Killed(BaseException):
    """End of an actor: nothing catches this."""


class Actor(threading.Thread):
    """Thread that makes its next request when it is its turn."""

    def __init__(self, work: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._work, self._turn, self._back = work, threading.Semaphore(0), threading.Semaphore(0)
        self.done = self.killed = False
        self.fault: Fault = ""
        self.error: BaseException | None = None
        self.start()
        self._back.acquire()

    def run(self) -> None:
        _TURN.actor = self
        try:
            self.pause()
            self._work()
        except Killed:
            pass
        except BaseException as error:
            self.error = error
        finally:
            self.done = True
            self._back.release()

    def pause(self) -> None:
        """Wait for the next turn."""
        self._back.release()
        self._turn.acquire()
        if self.killed:
            raise Killed

    def step(self, fault: Fault = "") -> None:
        """Let the actor make a request, with ``fault``, and run to its next one."""
        if not self.done:
            self.fault = fault
            self._turn.release()
            self._back.acquire()

    def kill(self) -> None:
        self.killed = True
        self.step()


class Model:
    """Stands for the module obstore, with ``now`` as the time of its clock."""

    def __init__(self) -> None:
        self.now = 1e9
        self.client = MemoryStore()
        self._written: dict[str, float] = {}

    def put(self, client: Any, path: str, data: bytes, **options: Any) -> None:
        fault = self._turn()
        if fault == "refused":
            raise _no_answer()
        obstore.put(client, path, data, **options)
        self._written[path] = self.now
        if fault == "lost":
            raise _no_answer()
        if fault == "retried" and options.get("mode") == "create":  # the library's second try finds the first
            raise AlreadyExistsError("it exists")

    def get(self, client: Any, path: str) -> Any:
        self._turn()
        return obstore.get(client, path)

    def head(self, client: Any, path: str) -> Any:
        self._turn()
        return self._dated(obstore.head(client, path))

    def list(self, client: Any, prefix: str | None, chunk_size: int = 50) -> Iterator[Sequence[Any]]:
        self._turn()
        for chunk in [*obstore.list(client, prefix)]:
            yield [self._dated(meta) for meta in chunk]

    def list_with_delimiter(self, client: Any, prefix: str | None = None) -> Any:
        self._turn()
        return obstore.list_with_delimiter(client, prefix)

    def delete(self, client: Any, paths: Sequence[str]) -> None:
        for path in paths:
            self._turn()
            obstore.delete(client, path)

    def store(self) -> Store:
        """Return a store of this model."""
        store = Store("s3://model")
        store.__dict__["_client"] = self.client
        return store

    def _turn(self) -> Fault:
        actor: Actor | None = getattr(_TURN, "actor", None)
        if actor is None:
            return ""
        actor.pause()
        fault, actor.fault = actor.fault, ""
        return fault

    def _dated(self, meta: Any) -> Any:
        return {**meta, "last_modified": datetime.fromtimestamp(self._written[meta["path"]], UTC)}

    def sleep(self, seconds: float) -> None:
        self._turn()


def use(model: Model, patch: pytest.MonkeyPatch) -> None:
    """Have stores ask ``model``, and leases wait for its turns."""
    patch.setattr(stores, "obstore", model)
    patch.setattr("mcvrp.storage.store.lease.time.sleep", model.sleep)


def _no_answer() -> GenericError:
    return GenericError("HTTP error: error sending request\n\nDebug source:\nkind: Timeout")
