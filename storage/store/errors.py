"""Errors of a store: permanent, temporary, or a corrupt file."""

from __future__ import annotations

import pyarrow as pa

from mcvrp.model.errors import IncompleteError, McvrpError

# Errors of pyarrow for bytes that are not Parquet; ValueError if the name of a column is not UTF-8.
UNREADABLE = (pa.ArrowException, OSError, ValueError)


class StoreError(McvrpError):
    """The store refuses (credentials, bucket, permission, no space): a retry would fail again."""


class StoreUnavailable(StoreError):
    """The store does not answer, after all retries of the client: a later request may succeed."""


class StoreSilent(StoreError, IncompleteError):
    """The store has not answered until the end of the waiting time; the same command resumes the work."""


class LeaseLost(StoreError):
    """The lease of this process was taken over or removed."""
