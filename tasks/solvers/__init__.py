"""Solvers: every way to solve an instance, behind one protocol."""

from typing import TYPE_CHECKING

from mcvrp.face import lazy

if TYPE_CHECKING:
    from mcvrp.tasks.solvers.registry import (
        SOLVERS as SOLVERS,
        SolverEntry as SolverEntry,
        register as register,
    )
    from mcvrp.tasks.solvers.solver import (
        Answer as Answer,
        Solver as Solver,
        SolverFailed as SolverFailed,
        SolverMissing as SolverMissing,
        best_of as best_of,
    )
else:
    __getattr__, __dir__ = lazy(__name__, __file__)
