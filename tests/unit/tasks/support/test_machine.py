"""Facts of this machine: the cores that are ours."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcvrp.tasks.support import machine


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({"cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu.max": ""}, None),
        ({"cpu.max": "x y"}, None),
        ({"cpu.max": "1 0"}, None),
        ({"cpu.cfs_quota_us": "150000\n", "cpu.cfs_period_us": "100000\n"}, 1.5),
        ({"cpu.cfs_quota_us": "-1\n", "cpu.cfs_period_us": "100000\n"}, None),
        ({}, None),
    ],
)
def test_a_limit_is_read_as_the_kernel_writes_it(
    tmp_path: Path, files: dict[str, str], limit: float | None
) -> None:
    """Quota and period in microseconds, in one file or in two by the version of control groups."""
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert machine.cpu_limit(tmp_path) == limit


@pytest.mark.parametrize(
    ("groups", "folder"),
    [("0::/a/b", "a"), ("0::/a/b", "a/b"), ("0::/a", "."), ("3:cpu,cpuacct:/a", "cpu/a")],
)
def test_the_limit_of_any_group_above_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, groups: str, folder: str
) -> None:
    """As a service manager sets it for a slice, or a container engine without a namespace of groups."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)))
    group = tmp_path / "sys/fs/cgroup" / folder
    for path in (tmp_path / "proc/self", group):
        path.mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(f"{groups}\n")
    (group / "cpu.max").write_text("250000 100000\n")
    assert machine.local_cores(tmp_path) == 2


@pytest.mark.parametrize(("limit", "cores"), [(2.5, 2), (0.5, 1), (1000.0, 3), (None, 3)])
def test_a_container_has_the_cores_of_its_limit(
    monkeypatch: pytest.MonkeyPatch, limit: float | None, cores: int
) -> None:
    monkeypatch.setattr(machine, "cpu_limit", lambda cgroup: limit)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2})
    assert machine.local_cores() == cores
