"""Tests of the inputs of a stage, which are read and checked once."""

from __future__ import annotations

import pytest

from mcvrp.flows.config.inputs import checked_before, open_store
from mcvrp.storage.store.store import StoreUnavailable


def test_only_the_first_stage_requires_an_answer_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stages of a pipeline open the store without a request; the flow that was started fails at once."""
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        monkeypatch.setenv(f"AWS_{name}", "canary")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(StoreUnavailable):
        open_store("s3://bucket/prefix")
    with checked_before():
        assert open_store("s3://bucket/prefix").uri == "s3://bucket/prefix"
