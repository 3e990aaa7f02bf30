"""Memory that this process may still use: the machine's, or less if a control group (container) limits it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil

_FILES = (
    ("memory.max", "memory.current"),  # version 2
    ("memory.limit_in_bytes", "memory.usage_in_bytes"),  # version 1
)
_CACHES = ("inactive_file", "active_file")  # pages that are given up when memory is needed


def available_memory(root: Path = Path("/")) -> int:
    """Return the free bytes of this machine, or fewer if a control group of this process has fewer left.

    Caches of files count as free. ``root`` is where ``proc`` and ``sys`` are.
    """
    left = [_left(folder) for folder in control_groups("memory", root)]
    return max(0, min([int(psutil.virtual_memory().available), *(n for n in left if n is not None)]))


def control_groups(controller: str, root: Path) -> Iterator[Path]:
    """Yield the folders of this process's control groups for ``controller`` and of those above them."""
    mount = root / "sys/fs/cgroup"
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:  # no Linux
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        top = mount / controller if controllers else mount
        group = top / path.strip("/")  # in a container it may be the name outside: its files are at the top
        yield from (folder for folder in (group, *group.parents) if folder.is_relative_to(top))


def _left(group: Path) -> int | None:
    """Return the bytes that ``group`` may still take, None if it has no limit."""
    for limit, usage in _FILES:
        try:
            return int((group / limit).read_text()) - int((group / usage).read_text()) + _cached(group)
        except (OSError, ValueError):
            continue
    return None


def _cached(group: Path) -> int:
    """Return the bytes of caches of files, of ``group`` and those below: in version 1 under another name."""
    try:
        facts = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return 0
    return sum(int(facts.get(f"total_{name}", facts.get(name, 0))) for name in _CACHES)
