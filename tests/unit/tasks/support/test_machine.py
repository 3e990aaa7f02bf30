"""Facts of this machine: the cores that are ours."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcvrp.tasks.support import machine


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("150000 100000\n", 1.5),
        ("max 100000\n", None),
        ("50000 100000", 0.5),
        ("", None),
        ("x y", None),
        ("1 0", None),
    ],
)
def test_a_limit_is_read_as_the_kernel_writes_it(tmp_path: Path, text: str, limit: float | None) -> None:
    """Quota and period in microseconds; what is no limit is none."""
    (tmp_path / "cpu.max").write_text(text)
    assert machine.cpu_limit(tmp_path) == limit
    assert machine.cpu_limit(tmp_path / "none") is None


@pytest.mark.parametrize(("limit", "cores"), [(2.5, 2), (0.5, 1), (1000.0, 3), (None, 3)])
def test_a_container_has_the_cores_of_its_limit(
    monkeypatch: pytest.MonkeyPatch, limit: float | None, cores: int
) -> None:
    """Whole ones, one at least, and no more than the machine gives."""
    monkeypatch.setattr(machine, "cpu_limit", lambda cgroup: limit)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2})
    assert machine.local_cores() == cores
