"""Leases that another process takes over."""

from __future__ import annotations

from mcvrp.storage.store.lease import Lease
from mcvrp.storage.store.store import Store

FAR = b"process 7 on far since noon (7)"


def taken_over(store: Store, folder: str, what: str = "it is done") -> Lease:
    """Return the lease in ``folder`` as process 7 on host far has it now, whoever had it."""
    number = max(store.numbered(folder), default=0) + 1
    assert store.put_new(f"{folder}/{number:06d}", FAR)
    return Lease(store, folder, number, FAR, what)
