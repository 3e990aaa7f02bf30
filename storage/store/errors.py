"""Errors of a store: refused for good, not to be had just now, or corrupt."""

from __future__ import annotations

import pyarrow as pa

from mcvrp.model.errors import IncompleteError, McvrpError

# What pyarrow raises on bytes that are no Parquet; ValueError where a column's name is no UTF-8.
UNREADABLE = (pa.ArrowException, OSError, ValueError)


class StoreError(McvrpError):
    """The store refuses (credentials, bucket, permission, no space): trying again is no use."""


class StoreUnavailable(StoreError):
    """The store gives no answer, after all tries of the client: later may work."""


class StoreSilent(StoreError, IncompleteError):
    """The store has given no answer for so long that nobody waits any more; the same command goes on."""


class LeaseLost(StoreError):
    """Another holds the lease under which this process works in the store, or somebody has removed it."""
