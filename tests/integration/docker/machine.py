"""Disks of limited size for volumes."""

from __future__ import annotations

import subprocess
from pathlib import Path


def mount_disk(folder: Path, gigabytes: int) -> None:
    """Mount a new disk at ``folder``, which only root can."""
    image = folder.with_suffix(".ext4")
    with image.open("wb") as file:
        file.truncate(gigabytes * 2**30)  # sparse
    folder.mkdir()
    for command in (f"mkfs.ext4 -q -m 0 {image}", f"mount -o loop {image} {folder}"):
        subprocess.run(command.split(), check=True)
