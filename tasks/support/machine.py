"""Properties of this machine: available cores and the name of its processor."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Iterator
from functools import cache
from pathlib import Path


def local_cores(root: Path = Path("/")) -> int:
    """Return the number of cores available to this process, by its affinity and its container's limit."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limits = [cpu_limit(group) for group in _control_groups(root)]
    return max(1, min([cores, *(int(limit) for limit in limits if limit is not None)]))


def cpu_limit(cgroup: Path) -> float | None:
    """Return the limit of a control group (version 1 or 2) in cores; None if there is none."""
    for files in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
        with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
            quota, period = " ".join((cgroup / file).read_text() for file in files).split()
            return None if quota in ("max", "-1") else int(quota) / int(period)
    return None


def _control_groups(root: Path) -> Iterator[Path]:
    """Yield the folders of the control groups that limit the cores of this process, and of their parents."""
    mount = root / "sys/fs/cgroup"
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:  # not Linux
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        top = mount / "cpu" if controllers else mount
        group = top / path.strip("/")  # in a container this may be a path on the host: its files are in top
        yield from (folder for folder in (group, *group.parents) if folder.is_relative_to(top))


@cache
def hardware() -> str:
    """Return the number of available cores and the name of the processor."""
    cores = local_cores()
    return f"{cores} core{'s' if cores > 1 else ''} of {processor()}"


@cache
def processor() -> str:
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as stream:  # Linux
        for line in stream:
            if line.startswith("model name"):
                return " ".join(line.split(":", 1)[1].split())
    return platform.processor() or platform.machine() or "an unknown processor"
