"""Parts that the scripts share: arguments, held-out instances, gaps, tables, commands of users."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City, Instance, cost
from mcvrp.tasks.solvers.budgets import budget_for
from mcvrp.tasks.solvers.hgs import HGS

Split = Literal["train", "valid", "test"]


def arguments(document: str | None) -> argparse.ArgumentParser:
    """Return a parser that describes the script by its docstring."""
    raw = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(description=document, formatter_class=raw)


def instances_of(
    city: City, n: int, count: int, *, seed: int = 1, split: Split = "test", first: int = 0
) -> list[Instance]:
    stream = InstanceStream(city, seed, split)
    return [stream(n, first + i) for i in range(count)]


def hgs_costs(city: City, instances: Sequence[Instance]) -> NDArray[np.float64]:
    """Return the costs of HGS with the budget `converged` of the largest instance."""
    hgs = HGS(**budget_for("converged", max(each.n for each in instances)).options())
    return np.array([cost(city, hgs.search(city, instance, 1)) for instance in instances])


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the measurements in ``path``; a line that a killed process left unfinished is removed."""
    if not path.exists():
        return []
    data = path.read_bytes()
    complete = data[: data.rfind(b"\n") + 1]
    if len(complete) < len(data):
        path.write_bytes(complete)
    return [json.loads(line) for line in complete.splitlines()]


def append_row(path: Path, row: dict[str, Any]) -> None:
    with path.open("a") as stream:
        stream.write(json.dumps(row) + "\n")


class Gap(NamedTuple):
    """Mean gap in percent and its standard error."""

    mean: float
    error: float

    @classmethod
    def of(cls, costs: Sequence[float] | NDArray[np.float64], base: NDArray[np.float64]) -> Gap:
        gaps = 100 * (np.array(costs) / base - 1)
        return cls(float(gaps.mean()), float(gaps.std(ddof=1) / len(gaps) ** 0.5))

    def __str__(self) -> str:
        return f"{self.mean:.2f} ± {self.error:.2f}"


def heading(*titles: str, texts: int = 0) -> None:
    """Print the head of a Markdown table, of whose columns the first ``texts`` hold no numbers."""
    rule = "---|" * texts + "--:|" * (len(titles) - texts)
    print(f"| {' | '.join(titles)} |\n|{rule}", flush=True)


def row(*cells: object) -> None:
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def command(name: str, preset: str, store: object, *changes: str) -> list[str]:
    """Return a command of users, such as "city create", with ``changes`` of its preset."""
    options = [part for change in changes for part in ("--set", change)]
    program = str(Path(sys.executable).with_name("mcvrp"))
    return [program, *name.split(), "--preset", preset, "--store", str(store), *options]
