"""Memory that a process may use: the machine's, or less in a container."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from mcvrp.memory import available_memory

MACHINE, GIB = 64 << 30, 1 << 30
GROUP = 10**9  # bytes of a real group


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    free = psutil.virtual_memory()._replace(available=MACHINE)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: free)


def written(root: Path, groups: str, files: dict[str, object]) -> Path:
    below_root = {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    for name, text in {"proc/self/cgroup": groups, **below_root}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{text}\n")
    return root


V2 = {"memory.max": 4 * GIB, "memory.current": 3 * GIB}
V1 = {"memory.limit_in_bytes": 4 * GIB, "memory.usage_in_bytes": 3 * GIB}
STAT = f"total_inactive_file {GIB}"
NO_LIMIT = {"memory.limit_in_bytes": 2**63 - 4096, "memory.usage_in_bytes": GIB}


def below(folder: str, files: dict[str, int]) -> dict[str, object]:
    return {f"{folder}/{name}": value for name, value in files.items()}


@pytest.mark.parametrize(
    ("groups", "files", "available"),
    [
        ("0::/", V2, GIB),
        ("0::/", {**V2, "memory.stat": f"anon 5\ninactive_file {GIB // 2}\nactive_file 9"}, GIB * 3 // 2 + 9),
        ("0::/a/b", below("a", V2), GIB),  # a parent's limit
        ("0::/a/b", {**below("a", V2), "a/b/memory.max": "max", "a/b/memory.current": 0}, GIB),
        ("0::/elsewhere", V2, GIB),  # the group's name outside of the container
        ("0::/", {"memory.max": "max", "memory.current": GIB}, MACHINE),
        ("0::/", {"memory.max": GIB, "memory.current": 2 * GIB}, 0),
        ("0::/", {"memory.max": "x", "memory.current": ""}, MACHINE),
        ("0::/", {}, MACHINE),
        ("4:memory:/d", below("memory/d", V1), GIB),
        ("4:cpu,memory:/d", below("memory/d", V1), GIB),
        ("4:memory:/d", below("memory", V1), GIB),
        ("4:memory:/d", below("memory", NO_LIMIT), MACHINE),
        ("4:memory:/d\n0::/", {**below("memory", V1), "memory/memory.stat": STAT}, 2 * GIB),
    ],
)
def test_the_lowest_limit(tmp_path: Path, groups: str, files: dict[str, object], available: int) -> None:
    """Less what is used, of the process's group and those above it, in both versions."""
    assert available_memory(written(tmp_path, groups, files)) == available


def test_without_control_groups_the_machine_counts(tmp_path: Path) -> None:
    assert available_memory(tmp_path) == MACHINE


IN_A_GROUP = "from mcvrp.memory import available_memory; input(); print(available_memory())"


def test_a_real_group_limits_its_processes() -> None:
    """A process in a group of 1 GB has no more, whatever the machine has."""
    folder, limit = _own_group()
    folder = folder / f"mcvrp-test-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / limit).write_text(str(GROUP))
    except OSError as error:
        if folder.exists():
            folder.rmdir()
        pytest.skip(f"no control group can be made here: {error}")
    program = [sys.executable, "-c", IN_A_GROUP]
    child = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        (folder / "cgroup.procs").write_text(str(child.pid))
        out, _ = child.communicate("\n", timeout=300)
    finally:
        child.kill()
        child.wait()
        folder.rmdir()
    assert 0 < int(out) <= GROUP


def _own_group() -> tuple[Path, str]:
    root = Path("/sys/fs/cgroup")
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            return root / "memory" / path.strip("/"), "memory.limit_in_bytes"
    return root, "memory.max"
