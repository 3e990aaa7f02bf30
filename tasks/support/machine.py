"""Properties of this machine: available cores and the name of its processor."""

from __future__ import annotations

import contextlib
import math
import os
import platform
from functools import cache
from pathlib import Path


def local_cores(root: Path = Path("/")) -> int:
    """Return the number of cores available to this process, by its affinity and its container's limit."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, int(min(cores, _cpu_limit(root / "sys/fs/cgroup"))))


def _cpu_limit(groups: Path) -> float:
    """Return the limit of this container's control group (version 2) in cores, infinite without one."""
    with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
        quota, period = (groups / "cpu.max").read_text().split()
        return math.inf if quota == "max" else int(quota) / int(period)
    return math.inf


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
