"""CVRPLIB's files: an instance (.vrp) as a city and a day of orders on it, a solution (.sol) as routes.

Node k of the city is customer k of a solution and row k + 1 of an instance: the depot is row 1, node 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeGuard

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from vrplib.parse import parse_solution

from mcvrp.model.errors import McvrpError, reason
from mcvrp.model.problem import City, Instance, Solution, cost, infeasibility
from mcvrp.storage.store.store import Store
from mcvrp.tasks.files.file_bytes import IN_STORE, file_bytes
from mcvrp.tasks.files.tabular import Tabular
from mcvrp.tasks.files.vrp_text import vrp_text

INSTANCE, SOLUTION = ".vrp", ".sol"
UNIT = "units"  # what a cost of 1 means: the files do not say
_ROUNDINGS: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "EUC_2D": lambda lengths: np.floor(lengths + 0.5),  # TSPLIB's nint
    "CEIL_2D": np.ceil,
    "FLOOR_2D": np.floor,
}
_MOST_ROUNDED = 10_001  # nodes: a matrix of more takes over 800 MB
_CENT = 0.0100001  # costs of straight lines are published with two decimals


@dataclass(frozen=True, eq=False)
class BestKnown:
    """Solution of an instance as a .sol file has it, checked; ``cost`` in the city's unit."""

    name: str
    solution: Solution
    cost: float


@dataclass(frozen=True, eq=False)
class VrpFile:
    """Instance of CVRPLIB.

    Parameters
    ----------
    name
        Of the file.
    city
        Its nodes, which are called by their number; straight lines, or a matrix where costs are rounded
        or explicit. Ranges of demand and capacity are the file's.
    demands
        Of the customers, int64 ``(m,)``.
    capacity
        What a vehicle holds.
    best
        The solution that lies beside it, if any.
    weights
        Its EDGE_WEIGHT_TYPE.
    notes
        How its costs were taken, a sentence each.
    """

    name: str
    city: City
    demands: NDArray[np.int64]
    capacity: int
    weights: str
    best: BestKnown | None = None
    notes: tuple[str, ...] = ()

    @property
    def instance(self) -> Instance:
        """The orders of all customers."""
        ids, demands = np.arange(1, len(self.demands) + 1, dtype=np.uint32), self.demands.astype(np.uint16)
        return Instance(self.city.city_id, ids, demands, self.capacity)

    @property
    def orders(self) -> Tabular:
        """The orders as a table with the columns customer, demand and capacity."""
        customers = range(1, len(self.demands) + 1)
        frame = pd.DataFrame({"customer": customers, "demand": self.demands, "capacity": self.capacity})
        return Tabular(self.name, frame, np.arange(2, len(frame) + 2), self.notes)


def is_vrp(place: object) -> TypeGuard[str]:
    """Return whether ``place`` is the address of an instance of CVRPLIB."""
    return isinstance(place, str) and place.lower().endswith(INSTANCE)


def read_vrp(store: Store, place: str, *, unrounded: bool = False) -> VrpFile:
    """Return the instance at ``place``, and the solution that lies beside it under the same name.

    EUC_2D costs are rounded to the nearest whole number, as TSPLIB has it, unless ``unrounded`` or a
    solution beside it whose cost holds without rounding say otherwise.

    Parameters
    ----------
    place
        A file here, in the store (`IN_STORE`), or at an address of its own.

    Raises
    ------
    McvrpError
        If it is no instance that capacity alone restricts, or the solution is not one of it.
    """
    if "://" in place:
        folder, _, name = place.rpartition("/")
        return read_vrp(Store.open(folder, writable=False), IN_STORE + name, unrounded=unrounded)
    found = parse_vrp(*file_bytes(store, place), unrounded=unrounded)
    beside = place[: -len(INSTANCE)] + SOLUTION
    in_store = beside.startswith(IN_STORE)
    there = store.exists(beside[len(IN_STORE) :]) if in_store else Path(beside).expanduser().is_file()
    return _with_best(found, *file_bytes(store, beside), unrounded=unrounded) if there else found


def parse_vrp(name: str, data: bytes, *, unrounded: bool = False) -> VrpFile:
    """Return the instance in ``data``, the bytes of the file ``name``; as `read_vrp` does, alone."""
    text = vrp_text(name, data)
    matrix, notes = text.matrix, list[str]()
    if text.places is None:
        assert matrix is not None  # `vrp_text` has refused the file otherwise
        xy = _laid_out(matrix)
        notes.append("it has no coordinates: places on the map are laid out by the costs")
    else:
        xy = text.places
    if matrix is None and not (unrounded and text.weights == "EUC_2D"):
        matrix = _rounded(name, xy, text.weights)
        notes.append(f"straight lines are rounded to whole numbers, as {text.weights} has it")
    city = City.framed(
        xy,
        matrix,
        unit=UNIT,
        demand=(int(text.demands.min()), int(text.demands.max())),
        capacity=(text.capacity, text.capacity),
    )
    return VrpFile(name, city, text.demands, text.capacity, text.weights, notes=tuple(notes))


def parse_sol(name: str, data: bytes, vrp: VrpFile) -> tuple[Solution, float | None]:
    """Return the routes in ``data``, the bytes of the file ``name``, and the cost that it gives, if any.

    Raises
    ------
    McvrpError
        If it is no solution, or its routes do not serve the instance.
    """
    try:
        there = parse_solution(data.decode("utf-8-sig"))
        price = next((float(there[key]) for key in ("cost", "objective") if key in there), None)
        routes = there["routes"]
    except (ValueError, TypeError, IndexError) as error:
        raise McvrpError(
            f"{name} is no solution ({reason(error)}): write lines as 'Route #1: 4 2 7', and 'Cost 375' last"
        ) from error
    solution = Solution.of(routes)
    if wrong := infeasibility(vrp.instance, solution):
        raise McvrpError(f"{name} is no solution of {vrp.name} ({wrong}): give its own")
    return solution, price


def sol_text(city: City, solution: Solution) -> str:
    """Return ``solution`` as a .sol file has it; a whole cost without a point."""
    routes = (f"Route #{k}: {' '.join(map(str, route))}" for k, route in enumerate(solution.routes, start=1))
    price = round(cost(city, solution), 6)
    return "\n".join([*routes, f"Cost {int(price) if price.is_integer() else price}", ""])


def _with_best(vrp: VrpFile, name: str, data: bytes, *, unrounded: bool) -> VrpFile:
    """Return ``vrp`` with the solution in ``data``, whose cost says whether lengths are rounded."""
    solution, said = parse_sol(name, data, vrp)
    ours = cost(vrp.city, solution)
    if said is None or abs(said - ours) <= _CENT:
        return replace(vrp, best=BestKnown(name, solution, ours))
    if vrp.weights == "EUC_2D":
        matrix = _rounded(vrp.name, vrp.city.xy, vrp.weights) if unrounded else None
        other = replace(vrp.city, matrix=matrix)
        price = cost(other, solution)
        if abs(said - price) <= _CENT and unrounded:
            return replace(vrp, notes=(*vrp.notes, f"{name} counts rounded lengths: no best known cost here"))
        if abs(said - price) <= _CENT:
            notes = (f"straight lines are not rounded, as in {name}",)
            return replace(vrp, city=other, notes=notes, best=BestKnown(name, solution, price))
    raise McvrpError(
        f"{name} says that its routes cost {said:,.10g}, in {vrp.name} they cost {ours:,.10g}: "
        "give the two files of one instance"
    )


def _rounded(name: str, xy: NDArray[np.float64], weights: str) -> NDArray[np.float64]:
    if len(xy) > _MOST_ROUNDED:
        raise McvrpError(
            f"{name} has {len(xy):,} nodes, rounded costs are kept for {_MOST_ROUNDED:,}: take them as they "
            "are (--unrounded)"
        )
    # the root of the sum, as TSPLIB has it: of whole coordinates the sum is exact
    square = np.square(xy[:, None, 0] - xy[None, :, 0]) + np.square(xy[:, None, 1] - xy[None, :, 1])
    return _ROUNDINGS[weights](np.sqrt(square))


def _laid_out(costs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return places whose distances come near ``costs``, ``(N, 2)``: classical multidimensional scaling."""
    square = ((costs + costs.T) / 2) ** 2
    means = square.mean(axis=0)
    values, vectors = np.linalg.eigh((means[:, None] + means - square - square.mean()) / 2)
    axes = vectors[:, :-3:-1]
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])
    places = axes * np.sqrt(np.maximum(values[:-3:-1], 0))
    step = 10.0 ** np.ceil(np.log10(max(float(costs.max()), 1e-300)) - 6)
    return np.round(places / step) * step  # the last digits are the machine's
