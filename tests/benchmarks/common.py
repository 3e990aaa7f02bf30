"""Parts that the scripts share: arguments, models, held-out instances, gaps, tables, commands of users.

Scripts that measure the memory of the driver of labels do without it: it imports torch.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from mcvrp.model.instances import InstanceStream
from mcvrp.model.network import FmMcvrp
from mcvrp.model.problem import City, Instance, cost
from mcvrp.storage.cities import find_city
from mcvrp.storage.models.models import ModelCard, load_model
from mcvrp.storage.store.store import Store
from mcvrp.tasks.solvers.budgets import budget_for
from mcvrp.tasks.solvers.hgs import HGS

Split = Literal["train", "valid", "test"]
PAPER_CITY = City.uniform(10_000, seed=1)


def arguments(document: str | None) -> argparse.ArgumentParser:
    """Return a parser that describes the script by its docstring."""
    raw = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(description=document, formatter_class=raw)


def model_arguments(document: str | None, *sizes: int) -> argparse.ArgumentParser:
    """Return a parser of a store, a model in it, and sizes of instances."""
    parser = arguments(document)
    parser.add_argument("store")
    parser.add_argument("model")
    parser.add_argument("--version", type=int, default=1)
    parser.add_argument("--sizes", type=int, nargs="+", default=sizes)
    return parser


def load(options: argparse.Namespace) -> tuple[City, FmMcvrp, ModelCard]:
    """Return the model that ``options`` name, in evaluation mode, and its city; PyTorch gets one thread."""
    torch.set_num_threads(1)
    store = Store.open(options.store)
    network, card = load_model(store, options.model, options.version)
    return find_city(store, card.city_id), network.eval(), card


def instances_of(
    city: City, n: int, count: int, *, seed: int = 1, split: Split = "test", first: int = 0
) -> list[Instance]:
    stream = InstanceStream(city, seed, split)
    return [stream(n, first + i) for i in range(count)]


def hgs_costs(city: City, instances: Sequence[Instance], hgs: HGS | None = None) -> NDArray[np.float64]:
    """Return the costs of HGS, by default with the budget `converged` of the largest instance."""
    solver = hgs or HGS(**budget_for("converged", max(each.n for each in instances)).options())
    return np.array([cost(city, solver.search(city, instance, 1)) for instance in instances])


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


def command(name: str, preset: str, store: Path, *changes: str) -> list[str]:
    """Return a command of users with ``changes`` of its preset."""
    options = [part for change in changes for part in ("--set", change)]
    program = str(Path(sys.executable).with_name("mcvrp"))
    return [program, name, "--preset", preset, "--store", str(store), *options]


def timed_command(name: str, preset: str, store: Path, *changes: str) -> float:
    """Run a command of users; return its wall-clock seconds."""
    began = time.monotonic()
    subprocess.run(command(name, preset, store, *changes), check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - began
