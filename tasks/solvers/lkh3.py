"""LKH-3 (Helsgaun 2017) through the lkh package, with an LKH program or, without one, with elkai."""

from __future__ import annotations

import importlib.util
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from pathlib import Path

import numpy as np

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City, Instance, Solution
from mcvrp.tasks.solvers.solver import (
    COORDINATE_SCALE,
    Answer,
    SolverFailed,
    SolverMissing,
    best_of,
    require_costs,
    scaled_xy,
)
from mcvrp.tasks.support.scratch import scratch_folder

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
    vehicles (the minimum that can carry all orders).

    Raises
    ------
    SolverMissing
        If the extra lkh is not installed.
    """

    iterations: int | None = None  # LKH calls them MAX_TRIALS
    runs: int = 1
    label: str = field(default="LKH-3", init=False)
    device: str = field(default="1 CPU core", init=False)

    def __post_init__(self) -> None:
        if (self.iterations is not None and self.iterations < 1) or self.runs < 1:
            raise McvrpError(
                f"LKH-3 needs at least one trial and one run, not {self.iterations}, {self.runs}"
            )
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
        trials = "n" if self.iterations is None else self.iterations
        settings = f"MAX_TRIALS = {trials}, RUNS = {self.runs}, default VEHICLES, {_SCALED}"
        return f"{self.version}, {settings}; the time includes the start of one process per run"

    def solve(
        self, city: City, instances: Sequence[Instance], *, samples: int, seed: int
    ) -> Iterator[Answer]:
        """Yield one answer per instance; McvrpError for a city with a cost matrix."""
        require_costs(self.label, "straight", city)
        with scratch_folder("lkh") as folder:
            program = _launcher(Path(folder))

            def run(city: City, instance: Instance, seed: int) -> Solution:
                return self._run(program, city, instance, seed)

            for instance in instances:
                yield best_of(run, city, instance, samples=samples, seed=seed)

    def _run(self, program: Path, city: City, instance: Instance, seed: int) -> Solution:
        import lkh  # here, as it is an optional extra

        problem = lkh.LKHProblem.parse(_tsplib(city, instance))
        tour_file = program.with_name("tour.txt")
        tour_file.unlink(missing_ok=True)
        trials = self.iterations or instance.n
        try:
            routes = lkh.solve(
                str(program),
                problem=problem,
                tour_file=str(tour_file),
                max_trials=trials,
                runs=self.runs,
                seed=seed,
            )
        except Exception as error:  # the package raises bare Exceptions and parser errors
            raise SolverFailed(
                f"LKH-3 gave up: {(str(error).strip() or repr(error)).splitlines()[-1]}"
            ) from error
        nodes = instance.nodes.tolist()
        return Solution.of([nodes[k - 1] for k in route] for route in routes)


def _tsplib(city: City, instance: Instance) -> str:
    points = np.rint(scaled_xy(city, instance) * _FINER).astype(np.int64).tolist()
    demands = [0, *instance.demands.tolist()]
    return "\n".join(
        [
            "NAME : mcvrp",
            "TYPE : CVRP",
            f"DIMENSION : {len(points)}",
            f"CAPACITY : {instance.capacity}",
            "EDGE_WEIGHT_TYPE : EUC_2D",
            "NODE_COORD_SECTION",
            *(f"{k} {x} {y}" for k, (x, y) in enumerate(points, start=1)),
            "DEMAND_SECTION",
            *(f"{k} {demand}" for k, demand in enumerate(demands, start=1)),
            "DEPOT_SECTION",
            "1",
            "-1",
        ]
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
