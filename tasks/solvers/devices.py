"""Devices of networks: what they are called in tables, and the CPU threads that decoding may take."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


def cores_text(cores: int) -> str:
    """Return "1 CPU core", "4 CPU cores"."""
    return "1 CPU core" if cores == 1 else f"{cores} CPU cores"


def device_text(device: torch.device) -> str:
    """Return what a network on ``device`` runs on, for tables."""
    if device.type != "cpu":
        return f"GPU ({torch.cuda.get_device_name()})"
    return cores_text(torch.get_num_threads())


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Let PyTorch work on ``count`` threads: on a busy machine, more wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
