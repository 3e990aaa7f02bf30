"""Leases that another process takes over."""

from __future__ import annotations

import json

from mcvrp.storage.store.lease import Lease
from mcvrp.storage.store.numbered import numbered
from mcvrp.storage.store.store import Store

FAR = json.dumps({"host": "far", "process": 7, "since": "noon", "token": "7"}).encode()


def taken_over(store: Store, folder: str, what: str = "it is done") -> Lease:
    """Return the lease in ``folder`` as process 7 on host far has it now, whoever had it."""
    number = max(numbered(store, folder), default=0) + 1
    assert store.put_new(f"{folder}/{number:06d}", FAR)
    return Lease(store, folder, number, FAR, what)
