"""LKH-3 (Helsgaun 2017) through the lkh package, with an LKH program or, without one, with elkai."""

from __future__ import annotations

import importlib.util
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import ClassVar

import numpy as np

from mcvrp.model.problem import City, Instance, Solution
from mcvrp.tasks.solvers.searches import COORDINATE_SCALE, fewest_vehicles, scaled_xy
from mcvrp.tasks.solvers.solver import Answer, SolverFailed, SolverMissing, best_of, require_costs

PROGRAMS = ("LKH", "LKH-3", "LKH3")
_FINER = 100  # LKH rounds distances to integers, which is negligible on a square of side 1e6
_SCALED = f"city scaled to a side of {COORDINATE_SCALE * _FINER:,.0f}, whole distances"
_ELKAI_SCRIPT = Path(__file__).with_name("elkai_lkh.py")


def find_program() -> str | None:
    """Return the path of an LKH program, otherwise "elkai"; None without either or without lkh."""
    if not importlib.util.find_spec("lkh"):
        return None
    for name in PROGRAMS:
        if path := shutil.which(name):
            return path
    return "elkai" if importlib.util.find_spec("elkai") else None


@dataclass(frozen=True)
class LKH3:
    """Lin-Kernighan-Helsgaun for vehicle routing, one process per run.

    Default: the paper's setting of as many trials as customers, one run, LKH's default number of
    vehicles (total demand by capacity, rounded up), or more if the orders provably need more. Raises
    SolverMissing if the extra lkh is not installed.
    """

    iterations: int | None = None  # LKH calls them MAX_TRIALS
    runs: int = 1
    label: ClassVar[str] = "LKH-3"
    device: ClassVar[str] = "1 CPU core"

    def __post_init__(self) -> None:
        if find_program() is None:
            raise SolverMissing(
                "LKH-3 is not installed: pip install '.[lkh]' where the source of mcvrp is "
                "(elkai and LKH-3 are free for academic and non-commercial use)"
            )

    @cached_property
    def version(self) -> str:
        """The program, and the package that contains it if any."""
        program = find_program()
        return f"LKH-3.0.8 in elkai {version('elkai')}" if program == "elkai" else f"{program}"

    @property
    def configuration(self) -> str:
        """Program and parameters in one line."""
        settings = f"MAX_TRIALS = {self.iterations or 'n'}, RUNS = {self.runs}, default VEHICLES, {_SCALED}"
        return f"{self.version}, {settings}; the time includes the start of one process per run"

    def solve(
        self, city: City, instances: Sequence[Instance], *, samples: int, seed: int
    ) -> Iterator[Answer]:
        """Yield one answer per instance; McvrpError for a city with a cost matrix."""
        require_costs(self.label, "straight", city)
        with tempfile.TemporaryDirectory(prefix="mcvrp-lkh-", ignore_cleanup_errors=True) as folder:
            program = _launcher(Path(folder))
            for instance in instances:
                yield best_of(partial(self._run, program), city, instance, samples=samples, seed=seed)

    def _run(self, program: Path, city: City, instance: Instance, seed: int) -> Solution:
        import lkh  # here, as it is an optional extra

        if instance.n == 1:  # fewer nodes than LKH accepts
            return Solution.of([instance.ids.tolist()])
        fits_one = int(instance.demands.sum()) <= instance.capacity
        # LKH in elkai finds no tour of a single vehicle; here the second one may stay at the depot
        vehicles = {"vehicles": 2, "mtsp_min_size": 0} if fits_one else {}
        if (needed := fewest_vehicles(instance)) > -(-int(instance.demands.sum()) // instance.capacity):
            vehicles = {"vehicles": needed}  # with its default it finds no tour
        problem = lkh.LKHProblem.parse(_tsplib(city, instance))
        tour_file = program.with_name("tour.txt")
        tour_file.unlink(missing_ok=True)
        try:
            routes = lkh.solve(
                str(program),
                problem=problem,
                tour_file=str(tour_file),
                max_trials=self.iterations or instance.n,
                runs=self.runs,
                seed=seed % 2**31,
                **vehicles,
            )
        except Exception as error:  # the package raises bare Exceptions and parser errors
            raise SolverFailed(
                f"LKH-3 gave up: {(str(error).strip() or repr(error)).splitlines()[-1]}"
            ) from error
        nodes = instance.nodes.tolist()
        return Solution.of([nodes[k - 1] for k in route] for route in routes if route)


def _tsplib(city: City, instance: Instance) -> str:
    points = np.rint(scaled_xy(city, instance) * _FINER).astype(np.int64).tolist()
    nodes = "\n".join(f"{k} {x} {y}" for k, (x, y) in enumerate(points, start=1))
    demands = "\n".join(f"{k} {d}" for k, d in enumerate([0, *instance.demands.tolist()], start=1))
    capacity = min(instance.capacity, int(instance.demands.sum()))  # LKH reads no larger ones than 2^31
    return (
        f"NAME : mcvrp\nTYPE : CVRP\nDIMENSION : {len(points)}\nCAPACITY : {capacity}\n"
        f"EDGE_WEIGHT_TYPE : EUC_2D\nNODE_COORD_SECTION\n{nodes}\nDEMAND_SECTION\n{demands}\n"
        "DEPOT_SECTION\n1\n-1"
    )


def _launcher(folder: Path) -> Path:
    """Write a script that runs LKH and is killed with this process, as `lkh.solve` cannot pass arguments."""
    program = find_program()
    command = [sys.executable, "-I", str(_ELKAI_SCRIPT)] if program == "elkai" else [str(program)]
    if guard := shutil.which("setpriv"):  # killed with its parent, even by SIGKILL
        command = [guard, "--pdeathsig", "KILL", *command]
    launcher = folder / "lkh"
    launcher.write_text(f'#!/bin/sh\nTMPDIR={shlex.quote(str(folder))} exec {shlex.join(command)} "$1"\n')
    launcher.chmod(0o700)
    return launcher
