"""Settings and fixtures that all tests share."""

from __future__ import annotations

from hypothesis import settings

from tests.s3_proxy import proxy
from tests.s3_server import s3, s3_bucket, s3_uri

__all__ = ["proxy", "s3", "s3_bucket", "s3_uri"]

settings.register_profile("mcvrp", deadline=None)  # a busy machine is no failure
settings.load_profile("mcvrp")
