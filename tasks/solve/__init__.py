"""Routing of a day's orders: read, planned, solved, written."""

from typing import TYPE_CHECKING

from mcvrp.face import lazy

if TYPE_CHECKING:
    from mcvrp.tasks.solve.day import Solved as Solved, solve_day as solve_day
    from mcvrp.tasks.solve.outputs import write_day as write_day
    from mcvrp.tasks.solve.plan import Planned as Planned, Request as Request, plan_day as plan_day
    from mcvrp.tasks.solve.spec import SolveSpec as SolveSpec
else:
    __getattr__, __dir__ = lazy(__name__, __file__)
