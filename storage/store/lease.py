"""Lease: a numbered file that names the process at work on an artifact, kept young by its owner's puts.

Whoever creates the next number has the lease; an owner who sees a higher one stops. A lease only saves double
work: writes have to be correct without it, since a machine that slept or was cut off does not know that its
lease has been taken over.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from mcvrp.model.errors import McvrpError, brief
from mcvrp.storage.store.errors import LeaseLost, StoreError
from mcvrp.storage.store.store import Store, StoredFile

logger = logging.getLogger(__name__)

TTL_SECONDS = 30.0  # without a put, after which a lease is stale
_PUTS = 3  # in that time
_LONG_STALE = 3600.0  # seconds
_RELEASE_SECONDS = 10.0  # for which the end of the work waits for a store that does not answer


@dataclass
class Lease:
    """Lease ``number`` in ``folder``; a copy in another process, such as a rank, keeps the same one.

    ``what`` is what the owner does, for messages: "dataset 'paper' is being labelled".
    """

    store: Store
    folder: str
    number: int
    owner: bytes
    what: str
    successor: str = field(default="", init=False)  # path of a higher number

    @classmethod
    def acquire(cls, store: Store, folder: str, what: str, ttl: float) -> Lease:
        """Return the lease in ``folder``, once its owner has ended or not put it for ``ttl`` seconds.

        McvrpError if the owner puts it meanwhile.
        """
        since, token = time.strftime("%Y-%m-%d %H:%M:%S %z"), secrets.token_hex(8)
        owner = f"process {os.getpid()} on {socket.gethostname()} since {since} ({token})".encode()
        seen: StoredFile | None = None
        while True:
            number, latest = _latest(store, folder)
            if latest is None or (age := _age(store, folder, latest)) > ttl:
                if store.put_new(_path(folder, number + 1), owner):
                    return cls(store, folder, number + 1, owner, what)
                continue  # another process was faster
            if seen and latest != seen:
                raise McvrpError(f"{what} by {_owner(store, latest.path)}: wait for it, or stop it")
            if not seen:
                named = _owner(store, latest.path)
                logger.warning("%s by %s, or was: waiting up to %.0f s for it", what, named, ttl - age)
            seen = latest
            time.sleep(max(0.02, min(ttl / _PUTS / 4, ttl - age)))

    def check(self) -> None:
        """Raise LeaseLost if the last `confirm` found that another process has taken the lease over."""
        if self.successor:
            raise LeaseLost(
                f"{self.store.url(self.successor)} belongs to {_owner(self.store, self.successor)}: "
                f"{self.what} twice, this one stops; run it again to resume"
            )

    def confirm(self) -> None:
        """Put the lease, so that it stays young; raises as `check`, StoreUnavailable without an answer."""
        self.check()
        self.store.put(_path(self.folder, self.number), self.owner)
        latest, _ = _latest(self.store, self.folder)
        if latest > self.number:
            self.successor = _path(self.folder, latest)
        self.check()

    def end(self) -> None:
        """Leave an empty file, for which nobody waits; a store that does not answer has a stale lease."""
        with contextlib.suppress(StoreError):
            self.store.put(_path(self.folder, self.number), b"")


@contextlib.contextmanager
def holding(store: Store, folder: str, what: str, *, ttl: float | None = None) -> Iterator[Lease]:
    """Hold the lease in ``folder`` while the block runs; ``ttl`` is `TTL_SECONDS` by default.

    Raises as `Lease.acquire`.
    """
    seconds = TTL_SECONDS if ttl is None else ttl
    lease, over = Lease.acquire(store, folder, what, seconds), threading.Event()

    def keep() -> None:
        while not over.wait(seconds / _PUTS):
            try:
                lease.confirm()
            except LeaseLost:
                return
            except StoreError as error:  # the work itself fails, too, and reports it
                logger.debug("%s", error)
        lease.end()

    keeper = threading.Thread(target=keep, daemon=True, name=f"lease {folder}")
    keeper.start()
    try:
        yield lease
    finally:
        over.set()
        keeper.join(_RELEASE_SECONDS)


def active_owner(store: Store, folder: str) -> str | None:
    """Return the owner of the lease in ``folder`` if it may be at work: the clocks may be an hour apart."""
    _, latest = _latest(store, folder)
    if latest is None or time.time() - latest.modified > _LONG_STALE:
        return None
    return _owner(store, latest.path)


def _latest(store: Store, folder: str) -> tuple[int, StoredFile | None]:
    """Return the highest number in ``folder``, 0 without any, and its file unless its owner has ended."""
    *_, (number, file) = (0, None), *store.numbered(folder).items()
    return number, file if file and file.size else None


def _age(store: Store, folder: str, file: StoredFile) -> float:
    """Return the age of ``file`` in seconds by the clock of the store, which dates a file put now."""
    store.put(f"{folder}/clock", b"")
    now = store.stat(f"{folder}/clock")
    return (now or file).modified - file.modified


def _path(folder: str, number: int) -> str:
    return f"{folder}/{number:06d}"


def _owner(store: Store, path: str) -> str:
    return brief((store.find(path) or b"an unknown process").decode(errors="replace"), 100)
