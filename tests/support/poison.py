"""An instance that its solver does not survive."""

from __future__ import annotations

from pathlib import Path

from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City

# Python imports it when it starts: the solver of that process then meets an instance it cannot stand.
_POISONED_SOLVER = """
import os, pathlib, signal, time
import hybgensea
solve = hybgensea.solve_cvrp

def poisoned(x, y, demands, capacity, **options):
    if [capacity, *demands[1:]] == {mark}:
        {action}
    return solve(x, y, demands, capacity, **options)

hybgensea.solve_cvrp = poisoned
"""


def poison(folder: Path, city: City, n: int, i: int, action: str) -> None:
    """Have HGS do ``action`` at instance (n, i) of seed 1 in every Python that looks into ``folder``."""
    instance = InstanceStream(city, 1, "train")(n, i)
    mark = [instance.capacity, *map(float, instance.demands)]
    (folder / "sitecustomize.py").write_text(_POISONED_SOLVER.format(mark=mark, action=action))
