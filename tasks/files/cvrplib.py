"""Files of CVRPLIB: instances (.vrp) as a city and its orders, solutions (.sol) as routes.

Node k of the city is customer k of a solution and row k + 1 of an instance: the depot is row 1, node 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeGuard

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mcvrp.model.errors import McvrpError, shown
from mcvrp.model.problem import City, Instance, Solution, cost, infeasibility
from mcvrp.storage.store.store import Store
from mcvrp.tasks.files.csv_cells import NUMBER
from mcvrp.tasks.files.file_bytes import file_bytes, file_exists
from mcvrp.tasks.files.tabular import Tabular
from mcvrp.tasks.files.vrp_text import text_lines, vrp_text
from mcvrp.tasks.support.text import listed

INSTANCE, SOLUTION = ".vrp", ".sol"
UNIT = "units"  # of costs: the files do not define it
_ROUNDINGS: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "EUC_2D": lambda lengths: np.floor(lengths + 0.5),  # TSPLIB's nint
    "CEIL_2D": np.ceil,
    "FLOOR_2D": np.floor,
}
_MOST_ROUNDED = 10_001  # nodes: a larger matrix takes over 800 MB
_ROUTE = re.compile(r"route\s*#?\s*[0-9]+\s*:((?:\s*\b[0-9]{1,10})*)", re.IGNORECASE)
_COST = re.compile(rf"(?:cost|objective)[\s:]+({NUMBER.pattern})", re.IGNORECASE)
_RESULT = re.compile(r"(?:route|cost|objective)\b|[+-]?[0-9]", re.IGNORECASE)
_CENT = 0.0100001  # unrounded costs are published with two decimals


@dataclass(frozen=True, eq=False)
class VrpFile:
    """Instance of CVRPLIB."""

    name: str  # of the file
    city: City  # with a matrix if costs are rounded or explicit; ranges of demand and capacity are the file's
    demands: NDArray[np.int64]  # of the customers, (m,)
    capacity: int
    weights: str  # EDGE_WEIGHT_TYPE
    best: float | None = None  # cost of the solution in the same folder
    notes: tuple[str, ...] = ()  # on the computation of costs

    @property
    def instance(self) -> Instance:
        """Orders of all customers as an instance."""
        ids, demands = np.arange(1, len(self.demands) + 1, dtype=np.uint32), self.demands.astype(np.uint16)
        return Instance(self.city.city_id, ids, demands, self.capacity)

    @property
    def orders(self) -> Tabular:
        """Orders of all customers as a table with the columns customer, demand and capacity."""
        customers = range(1, len(self.demands) + 1)
        frame = pd.DataFrame({"customer": customers, "demand": self.demands, "capacity": self.capacity})
        return replace(Tabular.of(self.name, frame), rows=np.arange(2, len(frame) + 2), notes=self.notes)


def is_vrp(place: object) -> TypeGuard[str]:
    """Return whether ``place`` is the path or URL of a .vrp file."""
    return isinstance(place, str) and place.lower().endswith(INSTANCE)


def read_vrp(store: Store, place: str, *, unrounded: bool = False) -> VrpFile:
    """Return the instance at ``place``, with the .sol file of the same name if there is one.

    EUC_2D costs are rounded to the nearest integer, as TSPLIB defines it, unless the cost in the .sol file is
    that without rounding, or ``unrounded`` is set: that file is not read then. ``place`` is that of
    `file_bytes`. McvrpError if the instance is invalid or has other constraints than capacity, or the
    solution is of another one.
    """
    vrp, sol = parse_vrp(*file_bytes(store, place), unrounded=unrounded), place[: -len(INSTANCE)] + SOLUTION
    return vrp if unrounded or not file_exists(store, sol) else with_best(vrp, *file_bytes(store, sol))


def parse_vrp(name: str, data: bytes, *, unrounded: bool = False) -> VrpFile:
    """Return the instance in ``data``, the content of the file ``name``, without its solution."""
    text = vrp_text(name, data)
    matrix, notes = text.matrix, list[str]()
    if unrounded and text.weights != "EUC_2D":
        raise McvrpError(
            f"--unrounded is for lengths of EUC_2D, and those of {name} are {text.weights}: omit it"
        )
    if matrix is None and not unrounded:
        matrix = _rounded(name, text.places, text.weights)
        notes.append(f"distances are rounded to integers, as defined by {text.weights}")
    city = City.framed(
        text.places,
        matrix,
        unit=UNIT,
        demand=(int(text.demands.min()), int(text.demands.max())),
        capacity=(text.capacity, text.capacity),
    )
    return VrpFile(name, city, text.demands, text.capacity, text.weights, notes=tuple(notes))


def parse_sol(name: str, data: bytes, vrp: VrpFile) -> tuple[Solution, float | None]:
    """Return routes and cost in ``data`` of the file ``name``; McvrpError unless the routes solve ``vrp``."""
    routes, prices = list[list[int]](), set[float]()
    for number, line in text_lines(data):
        if match := _ROUTE.fullmatch(line):
            routes.append([int(node) for node in match[1].split()])
        elif match := _COST.fullmatch(line):
            prices.add(float(match[1]))
        elif _RESULT.match(line):  # other lines are comments, such as "Routes: 3"
            raise McvrpError(
                f"{name} is not a valid solution (line {number} is {shown(line)}): write lines like "
                "'Route #1: 4 2' and 'Cost 7'"
            )
    if len(prices) > 1:
        raise McvrpError(f"{name} has the costs {listed(sorted(prices))}: keep one of them")
    solution = Solution.of(routes)
    if wrong := infeasibility(vrp.instance, solution):
        raise McvrpError(f"{name} does not solve {vrp.name} ({wrong}): give a solution of this instance")
    return solution, next(iter(prices), None)


def with_best(vrp: VrpFile, name: str, data: bytes) -> VrpFile:
    """Return ``vrp`` with the solution in ``data`` of the file ``name``; errors as in `parse_sol`.

    Its cost decides whether distances are rounded.
    """
    solution, published = parse_sol(name, data, vrp)
    cities = [(vrp.city, vrp.notes)]
    if vrp.weights == "EUC_2D":
        cities.append((replace(vrp.city, matrix=None), (f"distances are not rounded, as in {name}",)))
    for city, notes in cities:
        price = cost(city, solution)
        if published is None or abs(published - price) <= _CENT:
            return replace(vrp, city=city, notes=notes, best=price)
    raise McvrpError(
        f"{name} has Cost {published:,.10g}, but its routes cost {cost(vrp.city, solution):,.10g} in "
        f"{vrp.name}: give the files of one instance"
    )


def sol_text(city: City, solution: Solution) -> str:
    """Return ``solution`` in the format of .sol files; an integer cost without a decimal point."""
    routes = (f"Route #{k}: {' '.join(map(str, route))}" for k, route in enumerate(solution.routes, start=1))
    price = round(cost(city, solution), 6)
    return "\n".join([*routes, f"Cost {int(price) if price.is_integer() else price}", ""])


def _rounded(name: str, xy: NDArray[np.float64], weights: str) -> NDArray[np.float64]:
    if len(xy) > _MOST_ROUNDED:
        hint = "use unrounded costs (--unrounded)" if weights == "EUC_2D" else "give a smaller instance"
        raise McvrpError(
            f"{name} has {len(xy):,} nodes, but costs are rounded for {_MOST_ROUNDED:,} at most: {hint}"
        )
    # not np.hypot: the sum of squares is exact for integer coordinates, and so is the rounding
    square = np.square(xy[:, None, 0] - xy[None, :, 0]) + np.square(xy[:, None, 1] - xy[None, :, 1])
    return _ROUNDINGS[weights](np.sqrt(square))
