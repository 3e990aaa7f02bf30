"""Lease: a numbered file that names the process at work on an artifact, kept young by its owner's puts.

Whoever creates the next number has the lease; an owner who sees a higher one stops. A lease only saves double
work: writes have to be correct without it, since a machine that slept or was cut off does not know that its
lease has been taken over.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator

from mcvrp.model.errors import McvrpError
from mcvrp.storage.store.errors import LeaseLost, StoreError
from mcvrp.storage.store.numbered import numbered
from mcvrp.storage.store.parsing import parse_json
from mcvrp.storage.store.store import Store, StoredFile

logger = logging.getLogger(__name__)

TTL_SECONDS = 30.0  # without a put, after which a lease is stale
_PUTS = 3  # in that time
_LONG_STALE = 3600.0  # seconds
_RELEASE_SECONDS = 10.0  # for which the end of the work waits for a store that does not answer


class Lease:
    """Lease ``number`` in ``folder``; a copy in another process, such as a rank, keeps the same one.

    ``what`` is what the owner does, for messages: "dataset 'paper' is being labelled".
    """

    def __init__(self, store: Store, folder: str, number: int, owner: bytes, what: str) -> None:
        self._store, self._folder, self.number, self._owner, self._what = store, folder, number, owner, what
        self._successor = ""  # path of a higher number
        self._end = threading.Event()

    def __reduce__(self) -> tuple[type[Lease], tuple[Store, str, int, bytes, str]]:
        return Lease, (self._store, self._folder, self.number, self._owner, self._what)

    @classmethod
    def acquire(cls, store: Store, folder: str, what: str, ttl: float) -> Lease:
        """Return the lease in ``folder``, once its owner has ended or not put it for ``ttl`` seconds.

        McvrpError if the owner puts it meanwhile.
        """
        process = {"host": socket.gethostname(), "process": os.getpid(), "token": secrets.token_hex(8)}
        owner = json.dumps({**process, "since": time.strftime("%Y-%m-%d %H:%M:%S %z")}).encode()
        seen: StoredFile | None = None
        while True:
            files = numbered(store, folder)
            latest = files[max(files)] if files else None
            if latest is None or not latest.size or (age := _age(store, folder, latest)) > ttl:
                number = max(files, default=0) + 1
                # Listed once more: a number that others have passed meanwhile may have been deleted.
                if store.put_new(_path(folder, number), owner) and max(numbered(store, folder)) == number:
                    store.delete_files([_clock(folder), *(file.path for file in files.values())])
                    return cls(store, folder, number, owner, what)
                seen = None  # another process was faster
                continue
            if seen and latest != seen:
                raise McvrpError(f"{what} by {_owner(store, latest.path)}: wait for it, or stop it")
            if not seen:
                named = _owner(store, latest.path)
                logger.warning("%s by %s, or was: waiting up to %.0f s for it", what, named, ttl - age)
            seen = latest
            time.sleep(max(0.02, min(ttl / _PUTS / 4, ttl - age)))

    def check(self) -> None:
        """Raise LeaseLost if the last `confirm` found that another process has taken the lease over."""
        if self._successor:
            raise LeaseLost(
                f"{self._store.url(self._successor)} belongs to {_owner(self._store, self._successor)}: "
                f"{self._what} twice, this one stops; run it again to resume"
            )

    def confirm(self) -> None:
        """Put the lease, so that it stays young; raises as `check`, StoreUnavailable without an answer."""
        self.check()
        self._store.put(_path(self._folder, self.number), self._owner)
        latest = max(numbered(self._store, self._folder), default=0)
        if latest > self.number:
            self._successor = _path(self._folder, latest)
        self.check()

    def end(self) -> None:
        """Leave an empty file, for which nobody waits; a store that does not answer has a stale lease."""
        with contextlib.suppress(StoreError):
            self._store.put(_path(self._folder, self.number), b"")

    def keep(self, seconds: float) -> None:
        """Confirm the lease every ``seconds``, and end it after `release`."""
        while not self._end.wait(seconds):
            try:
                self.confirm()
            except LeaseLost:
                return
            except StoreError as error:  # the work itself fails, too, and reports it
                logger.debug("%s", error)
        self.end()

    def release(self, keeper: threading.Thread) -> None:
        """Have the ``keeper`` end the lease."""
        self._end.set()
        keeper.join(_RELEASE_SECONDS)


@contextlib.contextmanager
def holding(store: Store, folder: str, what: str, *, ttl: float | None = None) -> Iterator[Lease]:
    """Hold the lease in ``folder`` while the block runs; ``ttl`` is `TTL_SECONDS` by default.

    Raises as `Lease.acquire`.
    """
    seconds = TTL_SECONDS if ttl is None else ttl
    lease = Lease.acquire(store, folder, what, seconds)
    keeper = threading.Thread(target=lease.keep, args=(seconds / _PUTS,), daemon=True, name=f"lease {folder}")
    keeper.start()
    try:
        yield lease
    finally:
        lease.release(keeper)


def active_owner(store: Store, folder: str) -> str | None:
    """Return the owner of the lease in ``folder`` if it may be at work: the clocks may be an hour apart."""
    *_, latest = None, *numbered(store, folder).values()
    if latest is None or not latest.size or time.time() - latest.modified > _LONG_STALE:
        return None
    return _owner(store, latest.path)


def _age(store: Store, folder: str, file: StoredFile) -> float:
    """Return the age of ``file`` in seconds by the clock of the store, which dates a file put now."""
    store.put(_clock(folder), b"")
    now = store.stat(_clock(folder))
    return (now.modified if now else file.modified) - file.modified


def _path(folder: str, number: int) -> str:
    return f"{folder}/{number:06d}"


def _clock(folder: str) -> str:
    return f"{folder}/clock"


def _owner(store: Store, path: str) -> str:
    try:
        fields = parse_json(store.find(path) or b"")
        return f"process {fields['process']} on {fields['host']} since {fields['since']}"
    except (ValueError, TypeError, KeyError):
        return "an unknown process"
