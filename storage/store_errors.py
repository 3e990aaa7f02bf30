"""What a store answers instead of doing its work: refused for good, or not to be had just now."""

from __future__ import annotations

from model.errors import McvrpError


class StoreError(McvrpError):
    """The store refuses (credentials, bucket, permission, no space): trying again is no use."""


class StoreUnavailable(StoreError):
    """The store gives no answer, after all tries of the client: later may work."""
