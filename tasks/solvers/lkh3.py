"""LKH-3 (Helsgaun 2017) of the package elkai, which embeds it."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import ClassVar

import numpy as np

from mcvrp.model.problem import City, Instance, Solution
from mcvrp.tasks.solvers.searches import COORDINATE_SCALE, fewest_vehicles, scaled_xy
from mcvrp.tasks.solvers.solver import ONE_CORE, Answer, SolverFailed, SolverMissing, best_of, require_costs
from mcvrp.tasks.support.processes import die_with_parent

_FINER = 100  # LKH rounds distances to integers, which is negligible on a square of side 1e6
_SCALED = f"city scaled to a side of {COORDINATE_SCALE * _FINER:,.0f}, whole distances"
_SCRIPT = Path(__file__).with_name("elkai_lkh.py")


def is_installed() -> bool:
    """Return whether elkai, an optional extra, is installed."""
    return importlib.util.find_spec("elkai") is not None


@dataclass(frozen=True)
class LKH3:
    """Lin-Kernighan-Helsgaun for vehicle routing, one process per run.

    Default: the paper's setting of as many trials as customers, one run, LKH's default number of
    vehicles (total demand by capacity, rounded up), or more if the orders provably need more. Raises
    SolverMissing if the extra lkh is not installed.
    """

    iterations: int | None = None  # LKH calls them MAX_TRIALS
    label: ClassVar[str] = "LKH-3"
    device: ClassVar[str] = ONE_CORE

    def __post_init__(self) -> None:
        if not is_installed():
            raise SolverMissing(
                "LKH-3 is not installed: pip install '.[lkh]' where the source of mcvrp is "
                "(elkai and LKH-3 are free for academic and non-commercial use)"
            )

    @cached_property
    def version(self) -> str:
        """The program, and the package that contains it."""
        return f"LKH-3.0.8 in elkai {version('elkai')}"

    @property
    def configuration(self) -> str:
        """Program and parameters in one line."""
        settings = f"MAX_TRIALS = {self.iterations or 'n'}, RUNS = 1, minimum fleet, {_SCALED}"
        return f"{self.version}, {settings}; the time includes the start of one process per run"

    def solve(
        self, city: City, instances: Sequence[Instance], *, samples: int, seed: int
    ) -> Iterator[Answer]:
        """Yield one answer per instance; McvrpError for a city with a cost matrix."""
        require_costs(self.label, "straight", city)
        with tempfile.TemporaryDirectory(prefix="mcvrp-lkh-", ignore_cleanup_errors=True) as folder:
            for instance in instances:
                yield best_of(partial(self._run, Path(folder)), city, instance, samples=samples, seed=seed)

    def _run(self, folder: Path, city: City, instance: Instance, seed: int) -> Solution:
        if instance.n == 1:  # fewer nodes than LKH accepts
            return Solution.of([instance.ids.tolist()])
        problem, coordinates = _problem(city, instance)
        problem_file, tour_file = folder / "problem.vrp", folder / "tour.json"
        problem_file.write_text(problem)
        settings = {
            "PROBLEM_FILE": problem_file,
            "MAX_TRIALS": self.iterations or instance.n,
            "RUNS": 1,
            "SEED": seed % 2**31,
            **_vehicles(instance),
        }
        parameters = "\n".join(["SPECIAL", *(f"{key} = {value}" for key, value in settings.items())]) + "\n"
        done = subprocess.run(
            [sys.executable, "-I", str(_SCRIPT), str(tour_file)],
            input=json.dumps([parameters, coordinates]),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | {"TMPDIR": str(folder)},
            preexec_fn=die_with_parent,
        )
        tour = json.loads(tour_file.read_text()) if done.returncode == 0 else []
        if not tour:
            lines = done.stdout.strip().splitlines() or ["it found no tour"]
            raise SolverFailed(f"LKH-3 gave up: {lines[-1]}")
        # the depot is node 1, and there is a copy of it beyond the nodes for each further vehicle
        nodes = instance.nodes.tolist()
        routes = groupby(tour, lambda node: 1 < node <= len(nodes))
        return Solution.of([nodes[k - 1] for k in route] for served, route in routes if served)


def _vehicles(instance: Instance) -> dict[str, int]:
    """Return the number of vehicles as parameters of LKH, if its default of as few as fit finds no tour."""
    total = int(instance.demands.sum())
    if (needed := fewest_vehicles(instance)) > -(-total // instance.capacity):
        return {"VEHICLES": needed}
    # LKH in elkai finds no tour of a single vehicle; here the second one may stay at the depot
    return {"VEHICLES": 2, "MTSP_MIN_SIZE": 0} if total <= instance.capacity else {}


def _problem(city: City, instance: Instance) -> tuple[str, str]:
    """Return the instance in TSPLIB's format without its coordinates, and these."""
    points = np.rint(scaled_xy(city, instance) * _FINER).astype(np.int64).tolist()
    nodes = "".join(f"{k} {x} {y}\n" for k, (x, y) in enumerate(points, start=1))
    demands = "\n".join(f"{k} {d}" for k, d in enumerate([0, *instance.demands.tolist()], start=1))
    capacity = min(instance.capacity, int(instance.demands.sum()))  # LKH reads no larger ones than 2^31
    header = (
        f"NAME : mcvrp\nTYPE : CVRP\nDIMENSION : {len(points)}\nCAPACITY : {capacity}\n"
        f"EDGE_WEIGHT_TYPE : EUC_2D\nNODE_COORD_SECTION\nDEMAND_SECTION\n{demands}\n"
    )
    return f"{header}DEPOT_SECTION\n1\n-1\nEOF\n", f"\n{nodes}"
