"""Memory and disk space of this process: those of the machine, or less in a control group (container)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil

_FILES = (
    ("memory.max", "memory.current"),  # version 2
    ("memory.limit_in_bytes", "memory.usage_in_bytes"),  # version 1
)
_CACHES = ("inactive_file", "active_file")  # page caches, which the kernel frees on demand


def available_memory(root: Path = Path("/")) -> int:
    """Return the available bytes of this machine, or fewer if a control group of this process limits them.

    File caches count as available. ``root`` is the folder of ``proc`` and ``sys``.
    """
    limits = [_available(folder) for folder in control_groups("memory", root)]
    return max(0, min([int(psutil.virtual_memory().available), *(n for n in limits if n is not None)]))


def control_groups(controller: str, root: Path) -> Iterator[Path]:
    """Yield the folders of the control groups of this process for ``controller``, and of their parents."""
    mount = root / "sys/fs/cgroup"
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:  # not Linux
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        top = mount / controller if controllers else mount
        group = top / path.strip("/")  # in a container this may be a path on the host: its files are in top
        yield from (folder for folder in (group, *group.parents) if folder.is_relative_to(top))


def _available(group: Path) -> int | None:
    """Return the bytes that ``group`` may still allocate, None if it has no limit."""
    for limit, usage in _FILES:
        try:
            return int((group / limit).read_text()) - int((group / usage).read_text()) + _cached(group)
        except (OSError, ValueError):
            continue
    return None


def _cached(group: Path) -> int:
    """Return the bytes of file caches of ``group`` and its children; version 1 has another name for them."""
    try:
        statistics = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return 0
    return sum(int(statistics.get(f"total_{name}", statistics.get(name, 0))) for name in _CACHES)
