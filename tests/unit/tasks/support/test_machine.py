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


@pytest.mark.parametrize(("quota", "limit"), [("150000", 1.5), ("-1", None), ("", None)])
def test_a_limit_of_the_first_version_is_read(tmp_path: Path, quota: str, limit: float | None) -> None:
    """Quota and period in a file each; -1 is no limit."""
    (tmp_path / "cpu.cfs_quota_us").write_text(f"{quota}\n")
    (tmp_path / "cpu.cfs_period_us").write_text("100000\n")
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
    """Whole ones, one at least, and no more than the machine gives."""
    monkeypatch.setattr(machine, "cpu_limit", lambda cgroup: limit)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2})
    assert machine.local_cores() == cores
