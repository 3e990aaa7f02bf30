"""Lease: a file in the store that names the process at work on an artifact, renewed by a heartbeat.

It only avoids duplicate work. Writes must stay correct if a lease is lost, because a machine that sleeps or
is disconnected does not know that it is considered dead.
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
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from mcvrp.model.errors import McvrpError
from mcvrp.storage.store.errors import LeaseLost
from mcvrp.storage.store.parsing import parse_json
from mcvrp.storage.store.retry import AFTER_OUTAGE, StoreRetry
from mcvrp.storage.store.store import Store, StoreError

logger = logging.getLogger(__name__)

TTL_SECONDS = 60.0  # without a heartbeat, after which a holder on another machine is considered dead
BEATS = 4  # heartbeats in that time
_HELD: set[str] = set()  # tokens held by this process: a released lease may remain in a store that was silent
_HIDDEN = "hidden"  # start of a process of another user, if /proc is mounted with hidepid=2
_LONG_SILENT = 10  # multiple of the time, after which a holder is not waited for
_RELEASE_SECONDS = 10.0  # for which the end of the work waits for a store that does not answer


@dataclass(frozen=True)
class Holder:
    """Holder of a lease; ``beats`` counts its heartbeats.

    ``machine`` identifies a boot and a PID namespace: two containers on one computer differ in it.
    """

    host: str
    machine: str
    process: int
    started: str
    since: str
    token: str = field(default_factory=lambda: secrets.token_hex(8))
    beats: int = 0

    @classmethod
    def here(cls) -> Holder:
        """Return this process as a holder."""
        since = time.strftime("%Y-%m-%d %H:%M:%S %z")
        process = os.getpid()
        return cls(socket.gethostname(), _machine(), process, _started(process) or "", since)

    @property
    def dead(self) -> bool:
        """Return whether it was a process of this machine that has ended, or a released lease of this."""
        if not self.machine or self.machine != _machine():
            return False
        ours = self.process == os.getpid() and self.token not in _HELD
        return ours or _started(self.process) not in (self.started, _HIDDEN)

    def __str__(self) -> str:
        return f"process {self.process} on {self.host} since {self.since}"

    def encode(self) -> bytes:
        """Return the content of the file."""
        return (json.dumps(asdict(self), indent=2) + "\n").encode()

    @classmethod
    def decode(cls, data: bytes) -> Holder:
        """Return the holder in ``data``; if it is invalid, a holder that never renews."""
        try:
            return cls(**parse_json(data))
        except (ValueError, TypeError):
            return cls("an unknown host", "", 0, "", "an unknown time")


class Lease:
    """Lease that is held and renewed; `check` raises once it is lost.

    A copy in another process, such as a rank, renews and checks the same file.
    """

    def __init__(self, store: Store, path: str, what: str, holder: Holder, tag: str) -> None:
        self._store, self._path, self._what = store.outlasting(0), path, what  # a late heartbeat is useless
        self._silence = store.silence
        self._holder, self._tag = holder, tag
        self._loss: str | None = None
        self._end = threading.Event()

    def __reduce__(self) -> tuple[type[Lease], tuple[Store, str, str, Holder, str]]:
        return Lease, (self._store, self._path, self._what, self._holder, self._tag)

    def check(self) -> None:
        """Raise LeaseLost if the last heartbeat found the lease taken over or removed."""
        if self._loss is not None:
            raise LeaseLost(
                f"{self._store.url(self._path)} {self._loss}: {self._what} twice, this one stops; run it "
                "again to resume"
            )

    def confirm(self) -> None:
        """Renew the lease as `confirm_now` does; waits if the store of the holder is `outlasting`."""
        if self._silence:
            StoreRetry(self._store, silence=self._silence).call(self.confirm_now)
        else:
            self.confirm_now()

    def confirm_now(self) -> None:
        """Renew the lease now: within its time to live, no other holder writes.

        LeaseLost as `check`; StoreUnavailable if the store does not answer, so that the holder is unknown.
        """
        for _ in range(2):  # a copy in another process may have renewed it and changed the tag in between
            self.check()
            if self._beat():
                return
        self.check()

    def keep(self, interval: float) -> None:
        """Renew the lease by a heartbeat every ``interval`` seconds until `release`."""
        while not self._end.wait(interval) and self._loss is None:
            self._renew()

    def release(self) -> None:
        """Stop renewing, and remove the file if it is still ours; if the store is silent, it expires."""
        self._end.set()
        # Not by the keeper: its last heartbeat may hang in a connection although the store answers again.
        remover = threading.Thread(target=self._remove, daemon=True, name=f"release {self._path}")
        remover.start()
        remover.join(_RELEASE_SECONDS)
        if remover.is_alive():  # when it continues, this process may hold another lease there
            self._loss = "has been released"

    def _remove(self) -> None:
        with contextlib.suppress(StoreError):
            ours = self._loss is None and (self._renew() or self._ours())
            if ours and self._loss is None:  # just renewed, so that it is not taken over
                self._store.delete(self._path)

    def _ours(self) -> bool:
        """Return whether the file is still ours; on a full disk it can be removed but not renewed."""
        with contextlib.suppress(McvrpError):
            return Holder.decode(self._store.get(self._path)).token == self._holder.token
        return False

    def _renew(self) -> bool:
        """Write the next heartbeat; return whether the lease is known to be still ours."""
        try:
            self._beat()
        except StoreError:  # the work itself fails, too, and reports it
            return False
        return self._loss is None

    def _beat(self) -> bool:
        """Write the next heartbeat and read the holder back; return whether it was written."""
        following = replace(self._holder, beats=self._holder.beats + 1)
        written = self._store.swap(self._path, following.encode(), self._tag)
        found = self._store.find_tagged(self._path)
        if found is None:
            self._loss = "has been removed"
            return False
        data, tag = found
        holder = Holder.decode(data)
        if holder.token != self._holder.token:
            self._loss = f"now names {holder}"
            return False
        self._holder, self._tag = holder, tag  # also if the answer to an earlier renewal was lost
        return written


def active_holder(store: Store, path: str, now: float) -> Holder | None:
    """Return the holder of the lease at ``path`` if it may be alive ``now`` (clock of the store)."""
    stored, data = store.stat(path), store.find(path)
    if stored is None or data is None or (holder := Holder.decode(data)).dead:
        return None
    elsewhere = not holder.machine or holder.machine != _machine()
    return None if elsewhere and now - stored.modified > _LONG_SILENT * TTL_SECONDS else holder


@contextlib.contextmanager
def holding(store: Store, path: str, what: str, *, ttl: float = TTL_SECONDS) -> Iterator[Lease]:
    """Hold the lease at ``path`` while the block runs.

    A holder on this machine that has ended is replaced at once, one on another machine after ``ttl`` seconds
    without a heartbeat. ``what`` is what the holder does, for messages: "dataset 'paper' is being labelled".
    McvrpError if another live process holds it.
    """
    holder = Holder.here()
    _HELD.add(holder.token)
    try:
        lease = Lease(store, path, what, holder, _acquire(store, path, holder, what, ttl))
        keeper = threading.Thread(target=lease.keep, args=(ttl / BEATS,), daemon=True, name=f"lease {path}")
        keeper.start()
        guard = store.uri, lease.confirm_now
        AFTER_OUTAGE.append(guard)
        try:
            yield lease
        finally:
            AFTER_OUTAGE.remove(guard)
            lease.release()
    finally:
        _HELD.remove(holder.token)


def _acquire(store: Store, path: str, mine: Holder, what: str, ttl: float) -> str:
    watched, since = "", 0.0
    while True:
        if not watched:
            store.put_new(path, mine.encode())
        found = store.find_tagged(path)
        if found is None:  # just removed
            watched = ""
            continue
        data, tag = found
        other = Holder.decode(data)
        if other.token == mine.token:
            return tag
        here = bool(other.machine) and other.machine == mine.machine
        if (here and not other.dead) or (watched and tag != watched):
            raise McvrpError(f"{what} by {other}: wait for it, or stop it")
        if other.dead or (watched and time.monotonic() - since > ttl):
            store.swap(path, mine.encode(), tag)
            continue
        if not watched:
            logger.warning("%s by %s, or was: waiting %.0f s for a heartbeat", what, other, ttl)
            watched, since = tag, time.monotonic()
        time.sleep(ttl / BEATS / 2)


def _machine() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:  # not Linux: other processes cannot be inspected
        return ""


def _started(process: int) -> str | None:
    """Return the start time of ``process`` in ticks of the kernel, or `_HIDDEN`; None if it has ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return _HIDDEN if _is_hidden(process) else None
    return None if fields[0] in "ZX" else fields[19]  # a zombie has ended


def _is_hidden(process: int) -> bool:
    try:
        os.kill(process, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError, TypeError):  # not a process, in a corrupt lease not even its number
        pass
    return False
