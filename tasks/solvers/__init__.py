"""Solvers: every way to solve an instance, behind one protocol."""

from typing import TYPE_CHECKING

from mcvrp.face import lazy

if TYPE_CHECKING:
    from mcvrp.tasks.solvers.registry import SOLVERS as SOLVERS
    from mcvrp.tasks.solvers.registry import SolverEntry as SolverEntry
    from mcvrp.tasks.solvers.registry import make as make
    from mcvrp.tasks.solvers.registry import register as register
    from mcvrp.tasks.solvers.solver import Answer as Answer
    from mcvrp.tasks.solvers.solver import Solver as Solver
    from mcvrp.tasks.solvers.solver import SolverFailed as SolverFailed
    from mcvrp.tasks.solvers.solver import SolverMissing as SolverMissing
    from mcvrp.tasks.solvers.solver import best_of as best_of
else:
    __getattr__, __dir__ = lazy(
        __name__,
        registry="SOLVERS SolverEntry make register",
        solver="Answer Solver SolverFailed SolverMissing best_of",
    )
