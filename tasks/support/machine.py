"""Properties of this machine: available cores and the name of its processor."""

from __future__ import annotations

import contextlib
import os
import platform
from functools import cache
from pathlib import Path

from mcvrp.memory import control_groups


def local_cores(root: Path = Path("/")) -> int:
    """Return the number of cores available to this process, by its affinity and its container's limit."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limits = [cpu_limit(group) for group in control_groups("cpu", root)]
    return max(1, min([cores, *(int(limit) for limit in limits if limit is not None)]))


def cpu_limit(cgroup: Path) -> float | None:
    """Return the limit of a control group (version 1 or 2) in cores; None if there is none."""
    for files in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
        with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
            quota, period = " ".join((cgroup / file).read_text() for file in files).split()
            return None if quota in ("max", "-1") else int(quota) / int(period)
    return None


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
