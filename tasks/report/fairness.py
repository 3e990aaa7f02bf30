"""Conditions under which a benchmark's times were measured, in words, from its results alone."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pandas as pd

from mcvrp.tasks.support.text import format_seconds

_TOLERANCE = 0.5  # cores: what the system itself and the driver need


def run_on(block: pd.DataFrame, seconds: float | None) -> str:
    """Return what an instance of ``block`` (one method, size, number of samples) was solved on.

    ``seconds`` is its wall-clock time: where several cores worked on an instance, the processor
    time is told too. Where several instances were solved at once, their number.
    """
    device, workers = str(block["device"].iloc[0]), int(block["workers"].max())
    cores = _cores(device)
    if cores > 1 and seconds is not None:
        device += f" (CPU time {format_seconds(cores * seconds)})"
    return f"{device}, {workers} at once" if workers > 1 and seconds is not None else device


def conditions(results: pd.DataFrame) -> Iterator[str]:
    """Yield a note a method: configuration, seeds, processors, and whether it had the machine to itself."""
    ran = results[results["machine"] != ""]
    for method, block in ran.groupby("method", sort=False):
        yield f"{method}: {'; '.join(_facts(block))}."


def _facts(block: pd.DataFrame) -> Iterator[str]:
    texts = block[["configuration", "version"]].drop_duplicates()
    for configuration, version in texts.itertuples(index=False):
        yield configuration if not version or version in configuration else f"{configuration} ({version})"
    yield _seeds(block)
    for (device, workers, machine), part in block.groupby(["device", "workers", "machine"], sort=False):
        at_once = f", {workers} at once" if workers != 1 else ""
        yield f"{device} an instance{at_once}, on a machine with {machine}"
        yield _alone(part["other_cores"])


def _seeds(block: pd.DataFrame) -> str:
    seeds = ", ".join(map(str, sorted(block["seed"].unique().tolist())))
    return f"seed {seeds}" if block["samples"].max() == 1 else f"seeds from {seeds} up"


def _cores(device: str) -> int:
    """Return the cores that worked all the time, of "2 CPU cores"; the host of a GPU needs one.

    Where one thing ran after another ("2 CPU cores, then 1 CPU core"), that is not known: 1.
    """
    found = re.fullmatch(r"(\d+) CPU cores?", device)
    return int(found[1]) if found else 1


def _alone(others: pd.Series) -> str:
    """Say whether others worked on the machine meanwhile."""
    known = others.dropna()
    if known.empty:
        return "whether it had the machine to itself was not recorded"
    cores = float(known.mean())
    if cores <= _TOLERANCE:
        return "nothing else of weight ran on the machine"
    return f"not alone: other work kept {cores:.1f} cores of the machine busy, times are upper bounds"
