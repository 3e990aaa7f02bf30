"""Lease, one worker at a time: a file in the store that says who is at it, and that it is still alive.

It keeps two from doing the same work, nothing more: what they write has to stay right if a lease
is lost, because a machine that sleeps or is cut off does not know that it is taken for dead.
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
from mcvrp.storage.store.store import Store, StoreError, StoreUnavailable

logger = logging.getLogger(__name__)

TTL_SECONDS = 60.0  # silence after which a holder elsewhere is taken for dead
BEATS = 4  # heartbeats in that time
_HELD: set[str] = set()  # tokens of this process; what it has let go may still be in a store that was silent
_LONG_SILENT = 10  # times as long, and nobody waits for a sign of life any more


@dataclass(frozen=True)
class Holder:
    """Holder of a lease; ``beats`` counts the signs of life.

    ``machine`` names a running system and its process numbers: two containers of one computer
    have different ones.
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
        """Return whether it was a process of this machine and is no more, or this one, and has let go."""
        if not self.machine or self.machine != _machine():
            return False
        ours = self.process == os.getpid() and self.token not in _HELD
        return ours or _started(self.process) != self.started

    def __str__(self) -> str:
        return f"process {self.process} on {self.host} since {self.since}"

    def encode(self) -> bytes:
        """Return what the store keeps."""
        return (json.dumps(asdict(self), indent=2) + "\n").encode()

    @classmethod
    def decode(cls, data: bytes) -> Holder:
        """Return the holder in ``data``; one that never speaks again if there is none in it."""
        try:
            return cls(**parse_json(data))
        except (ValueError, TypeError):
            return cls("an unknown host", "", 0, "", "an unknown time")


class Lease:
    """A lease that is held and renewed; `check` says when it is ours no longer.

    In another process, such as a rank, a copy of it renews and checks the same file.
    """

    def __init__(self, store: Store, path: str, what: str, holder: Holder, tag: str) -> None:
        self._store, self._path, self._what = store.outlasting(0), path, what  # a beat too late is none
        self._silence = store.silence
        self._holder, self._tag = holder, tag
        self._loser_of: str | None = None
        self._heard = True
        self._end = threading.Event()

    def __reduce__(self) -> tuple[type[Lease], tuple[Store, str, str, Holder, str]]:
        return Lease, (self._store, self._path, self._what, self._holder, self._tag)

    def check(self) -> None:
        """Raise LeaseLost if it is known that another has the lease, or that somebody has removed it."""
        if self._loser_of is not None:
            raise LeaseLost(
                f"{self._store.url(self._path)} no longer names this process but {self._loser_of}: "
                f"{self._what} twice, this one stops; run it again to go on from what there is"
            )

    def confirm(self) -> None:
        """Renew the lease as `confirm_now`; waits for the store if the holder's store is `outlasting`."""
        if self._silence:
            StoreRetry(self._store, silence=self._silence).call(self.confirm_now)
        else:
            self.confirm_now()

    def confirm_now(self) -> None:
        """Renew the lease now: what is written next, within its time to live, no other holder writes.

        Raises
        ------
        LeaseLost
            As `check` does.
        StoreUnavailable
            If the store does not answer, so that nobody knows whose it is.
        """
        for _ in range(2):  # again where another process of this holder has renewed it before
            self.check()
            if self._beat():
                return
        self.check()

    def keep(self, interval: float) -> None:
        """Renew the lease by a heartbeat every ``interval`` seconds until `release`."""
        while not self._end.wait(interval) and self._loser_of is None:
            self._renew()

    def release(self, keeper: threading.Thread) -> None:
        """Stop renewing, and remove the file if it is ours; if the store is silent, it is left to expire."""
        self._end.set()
        keeper.join(1.0)
        known = not keeper.is_alive() and self._heard and self._loser_of is None
        if known and (self._renew() or self._ours()):  # nobody takes over what has just been renewed
            with contextlib.suppress(StoreError):
                self._store.delete(self._path)

    def _ours(self) -> bool:
        """Return whether the file is still ours; on a full disk it can be removed, though not renewed."""
        with contextlib.suppress(McvrpError):
            return Holder.decode(self._store.get(self._path)).token == self._holder.token
        return False

    def _renew(self) -> bool:
        """Write the next heartbeat; return whether the lease is still ours."""
        try:
            self._beat()
            self._heard = True
        except StoreError as error:  # who cannot reach the store cannot work either: that says it
            self._heard = not isinstance(error, StoreUnavailable)
            return False
        return self._loser_of is None

    def _beat(self) -> bool:
        """Write the next heartbeat and note who has the lease; return whether it was written."""
        following = replace(self._holder, beats=self._holder.beats + 1)
        written = self._store.swap(self._path, following.encode(), self._tag)
        try:
            data, tag = self._store.get_tagged(self._path)
        except StoreError:
            raise
        except McvrpError:
            self._loser_of = "nobody"
            return False
        found = Holder.decode(data)
        if found.token != self._holder.token:
            self._loser_of = str(found)
            return False
        self._holder, self._tag = found, tag  # also where the answer to an earlier renewal was lost
        return written


def active_holder(store: Store, path: str, now: float) -> Holder | None:
    """Return who holds the lease at ``path`` and may be alive ``now`` (the store's clock), None if nobody."""
    written = [file.modified for file in store.files(path.rpartition("/")[0]) if file.path == path]
    try:
        holder = Holder.decode(store.get(path)) if written else None
    except StoreError:
        raise
    except McvrpError:  # let go just now
        return None
    if holder is None or holder.dead:
        return None
    elsewhere = not holder.machine or holder.machine != _machine()
    return None if elsewhere and now - written[0] > _LONG_SILENT * TTL_SECONDS else holder


@contextlib.contextmanager
def holding(
    store: Store,
    path: str,
    what: str,
    *,
    ttl: float = TTL_SECONDS,
) -> Iterator[Lease]:
    """Hold the lease at ``path`` while the block runs.

    A holder on this machine that has died is replaced at once; one elsewhere when it has shown
    no sign of life for ``ttl`` seconds.

    Parameters
    ----------
    what
        What the holder does, for people: "dataset 'paper' is being labelled".

    Raises
    ------
    McvrpError
        If another process holds it and is alive.
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
            lease.release(keeper)
    finally:
        _HELD.remove(holder.token)


def _acquire(store: Store, path: str, mine: Holder, what: str, ttl: float) -> str:
    watched, since = "", 0.0
    while True:
        if not watched:
            store.put_new(path, mine.encode())
        try:
            data, tag = store.get_tagged(path)
        except StoreError:
            raise
        except McvrpError:  # removed just now
            watched = ""
            continue
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
            logger.warning("%s by %s, or was: waiting %.0f s for a sign of life", what, other, ttl)
            watched, since = tag, time.monotonic()
        time.sleep(ttl / BEATS / 2)


def _machine() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:  # not Linux: nothing is known about other processes
        return ""


def _started(process: int) -> str | None:
    """Return when ``process`` started, in the kernel's ticks; None when it has ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return None
    return None if fields[0] in "ZX" else fields[19]  # a zombie has ended
