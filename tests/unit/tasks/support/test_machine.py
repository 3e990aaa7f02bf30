"""Facts of this machine: the cores that are ours."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcvrp.tasks.support import machine


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "250000 100000\n"}, 2),
        ({"cpu.max": "50000 100000\n"}, 1),
        ({"cpu.max": "9000000 100000\n"}, 3),
        ({"cpu.max": "max 100000\n"}, 3),
        ({"cpu.max": ""}, 3),
        ({"cpu.max": "x y"}, 3),
        ({"cpu.max": "1 0"}, 3),
        ({}, 3),
    ],
)
def test_a_container_has_the_cores_of_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], cores: int
) -> None:
    """Quota and period in microseconds."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2})
    for name, text in files.items():
        file = tmp_path / "sys/fs/cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert machine.local_cores(tmp_path) == cores
