"""Session of Ray that the benchmarks share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mcvrp.tasks.support.ray_session import ray_session


@pytest.fixture(scope="package", autouse=True)
def _ray() -> Iterator[None]:
    with ray_session(1):
        yield
