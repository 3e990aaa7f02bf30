"""Files of CVRPLIB: instances (.vrp) as a city and its orders, solutions (.sol) as routes.

Node k of the city is customer k of a solution and row k + 1 of an instance: the depot is row 1, node 0. The
format is TSPLIB's: specifications 'KEYWORD : VALUE' and sections of rows, in any order, up to EOF. What is
not read is refused by name or line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeGuard

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mcvrp.model.errors import McvrpError, shown
from mcvrp.model.problem import City, Instance, Solution, cost, infeasibility
from mcvrp.storage.store.store import Store
from mcvrp.tasks.files.cells import NUMBER
from mcvrp.tasks.files.file_bytes import LARGEST, file_bytes, file_exists
from mcvrp.tasks.files.tabular import Tabular
from mcvrp.tasks.support.text import listed

INSTANCE, SOLUTION = ".vrp", ".sol"
UNIT = "units"  # of costs: the files do not define it
_PLACES, _DISPLAY, _MATRIX = "NODE_COORD_SECTION", "DISPLAY_DATA_SECTION", "EDGE_WEIGHT_SECTION"
_DEMANDS, _DEPOT = "DEMAND_SECTION", "DEPOT_SECTION"
_READ = {
    *("TYPE", "DIMENSION", "CAPACITY", "EDGE_WEIGHT_TYPE", "EDGE_WEIGHT_FORMAT"),
    *(
        "NAME",
        "COMMENT",
        "BEST_KNOWN",
        "NODE_COORD_TYPE",
        "DISPLAY_DATA_TYPE",
    ),  # routes do not depend on these
    *(_PLACES, _DISPLAY, _MATRIX, _DEMANDS, _DEPOT),
}
_LIMITS = ("DISTANCE", "SERVICE_TIME", "VEHICLES")  # 0 in public instances: no limit
_ROUNDINGS: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "EUC_2D": lambda lengths: np.floor(lengths + 0.5),  # TSPLIB's nint
    "CEIL_2D": np.ceil,
    "FLOOR_2D": np.floor,
}
_FORMATS = ("FULL_MATRIX", "LOWER_ROW")  # those of public instances
_MOST_ROUNDED = 10_001  # nodes: a larger matrix takes over 800 MB
_MOST_DEMAND = 2**16 - 1  # instances store demands in 16 bits
_LARGEST = 2**32 - 1  # number of nodes, capacity
_KEYWORD = re.compile("[A-Z][A-Z0-9_]{,39}")
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
    """Return the instance at ``place``, with the cost of the .sol file of the same name if there is one.

    ``place`` is that of `file_bytes`, ``unrounded`` that of `parse_vrp`. McvrpError if the instance is
    invalid or has other constraints than capacity, or if the solution does not solve it or has another cost.
    """
    vrp, sol = parse_vrp(*file_bytes(store, place), unrounded=unrounded), place[: -len(INSTANCE)] + SOLUTION
    if not file_exists(store, sol):
        return vrp
    name, data = file_bytes(store, sol)
    solution, published = parse_sol(name, data, vrp)
    best = cost(vrp.city, solution)
    if published is not None and abs(published - best) > _CENT:
        hint = "omit" if unrounded else "give"
        raise McvrpError(
            f"{name} has Cost {published:,.10g}, but its routes cost {best:,.10g} in {vrp.name}: {hint} "
            "--unrounded if it is of the same instance"
        )
    return replace(vrp, best=best)


def parse_vrp(name: str, data: bytes, *, unrounded: bool = False) -> VrpFile:
    """Return the instance in ``data``, the content of the file ``name``, without its solution.

    EUC_2D costs are rounded to the nearest integer, as TSPLIB defines it, unless ``unrounded`` is set.
    """
    file, notes = _File.parsed(name, data), list[str]()
    file.choice("TYPE", ("CVRP", "ACVRP"), "CVRP")
    file.refuse_unread()
    count, capacity = file.whole("DIMENSION", 2), file.whole("CAPACITY", 1)
    if (depots := " ".join(row.text for row in file.rows.get(_DEPOT, ()))) not in ("1", "1 -1"):
        raise file.error(f"{shown(depots)} in {_DEPOT}", "1, the depot, and -1")
    weights = file.choice("EDGE_WEIGHT_TYPE", (*_ROUNDINGS, "EXPLICIT"))
    places = file.numbered(_PLACES if _PLACES in file.rows or weights != "EXPLICIT" else _DISPLAY, count, 2)
    if unrounded and weights != "EUC_2D":
        raise McvrpError(f"--unrounded is for lengths of EUC_2D, and those of {name} are {weights}: omit it")
    matrix = None
    if weights == "EXPLICIT":
        matrix = file.matrix(count)
    elif _MATRIX in file.rows:
        raise file.error(f"a section {_MATRIX}", f"none with EDGE_WEIGHT_TYPE {weights}")
    elif not unrounded:
        matrix = _rounded(name, places, weights)
        notes.append(f"distances are rounded to integers, as defined by {weights}")
    demands = file.demands(count, capacity)
    ranges = {"demand": (int(demands.min()), int(demands.max())), "capacity": (capacity, capacity)}
    return VrpFile(
        name, City.framed(places, matrix, unit=UNIT, **ranges), demands, capacity, notes=tuple(notes)
    )


def parse_sol(name: str, data: bytes, vrp: VrpFile) -> tuple[Solution, float | None]:
    """Return routes and cost in ``data`` of the file ``name``; McvrpError unless the routes solve ``vrp``."""
    routes, prices = list[list[int]](), set[float]()
    for number, line in _lines(data):
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


class _Line(NamedTuple):
    """A line of a file, or the value in it."""

    number: int  # from 1
    text: str


def _lines(data: bytes) -> Iterator[_Line]:
    """Yield the lines of ``data`` without surrounding spaces; not empty ones and those that begin with #."""
    text = data.decode("utf-8-sig", errors="replace")  # only names and comments are not ASCII
    for number, line in enumerate(text.splitlines(), start=1):
        if (line := line.strip()) and not line.startswith("#"):
            yield _Line(number, line)


def _number(word: str) -> float:
    """Return the number ``word``, NaN if it is none."""
    return float(word) if NUMBER.fullmatch(word) else np.nan


@dataclass(frozen=True)
class _File:
    """Parts of the instance ``name``, by keyword."""

    name: str
    values: Mapping[str, _Line]  # of specifications; "" for a section
    rows: Mapping[str, Sequence[_Line]]  # of sections

    @classmethod
    def parsed(cls, name: str, data: bytes) -> _File:
        values, sections = dict[str, _Line](), dict[str, list[_Line]]()
        rows: list[_Line] | None = None
        lines = _lines(data)
        for line in lines:
            keyword, colon, value = (part.strip() for part in line.text.partition(":"))
            keyword = keyword.upper()
            if keyword == "EOF" and not value:
                break
            is_section = keyword.endswith("_SECTION")
            if _KEYWORD.fullmatch(keyword) and (not value if is_section else colon):
                if keyword in values and keyword != "COMMENT":
                    where = f"lines {values[keyword].number} and {line.number}"
                    raise McvrpError(f"{name} has {keyword} twice, in {where}: keep one of them")
                values[keyword] = _Line(line.number, value)
                rows = sections.setdefault(keyword, []) if is_section else None
            elif rows is not None:
                rows.append(line)
            else:
                what = "is neither 'KEYWORD : VALUE' nor in a section"
                raise McvrpError(
                    f"{name} is not a valid .vrp file: line {line.number}, {shown(line.text)}, {what}"
                )
        if after := next(lines, None):
            raise McvrpError(f"{name} has line {after.number}, {shown(after.text)}, after EOF: remove it")
        return cls(name, values, sections)

    def refuse_unread(self) -> None:
        for keyword, (number, value) in self.values.items():
            if keyword not in _READ and not (keyword in _LIMITS and _number(value) == 0):
                why = "is not read, so no routes here respect it: remove it to route without"
                raise McvrpError(f"{keyword} in line {number} of {self.name} {why}")

    def error(self, found: str, expected: str) -> McvrpError:
        return McvrpError(f"{self.name} has {found}: expected {expected}")

    def wrong(self, keyword: str, expected: str) -> McvrpError:
        """Return the error of a specification."""
        if keyword not in self.values:
            return self.error(f"no {keyword}", expected)
        number, value = self.values[keyword]
        return self.error(f"{keyword} {shown(value)} in line {number}", expected)

    def choice(self, keyword: str, choices: Sequence[str], default: str = "") -> str:
        value = self.values.get(keyword, _Line(0, default)).text.upper()
        if value not in choices:
            raise self.wrong(keyword, " or ".join(choices))
        return value

    def whole(self, keyword: str, least: int) -> int:
        value = _number(self.values.get(keyword, _Line(0, "")).text)
        if not (value % 1 == 0 and least <= value <= _LARGEST):
            raise self.wrong(keyword, f"a whole number from {least} to {_LARGEST:,}")
        return int(value)

    def numbered(self, title: str, count: int, width: int) -> NDArray[np.float64]:
        """Return the rows of a section without their numbers 1 to ``count``, float64 ``(count, width)``."""
        rows, values = self.rows.get(title, ()), list[list[float]]()
        for k, (line, text) in enumerate(rows, start=1):
            number, *numbers = map(_number, text.split())
            if number != k or len(numbers) != width or not max(map(abs, numbers)) <= LARGEST:
                expected = f"{k} and {width} numbers up to {LARGEST:g}" if width > 1 else f"{k} and a number"
                raise self.error(f"{shown(text)} in line {line}, row {k} of {title}", expected)
            values.append(numbers)
        if len(rows) != count:
            raise self.error(f"{len(rows)} rows in {title}", f"DIMENSION, {count}")
        return np.array(values)

    def demands(self, count: int, capacity: int) -> NDArray[np.int64]:
        """Return the demands of the customers, ``(count - 1,)``."""
        demands, most = self.numbered(_DEMANDS, count, 1)[:, 0], min(capacity, _MOST_DEMAND)
        is_right = (demands % 1 == 0) & (demands >= 1) & (demands <= most)
        is_right[0] = demands[0] == 0
        for k in np.flatnonzero(~is_right).tolist():
            line, text = self.rows[_DEMANDS][k]
            expected = f"a whole number from 1 to {most:,}" if k else "0 for the depot"
            raise self.error(f"the demand {shown(text.split()[1])} for node {k + 1} in line {line}", expected)
        return demands[1:].astype(np.int64)

    def matrix(self, count: int) -> NDArray[np.float64]:
        """Return the explicit costs, ``(count, count)``."""
        form, numbers = self.choice("EDGE_WEIGHT_FORMAT", _FORMATS), list[float]()
        for line, text in self.rows.get(_MATRIX, ()):
            for word in text.split():
                if not 0 <= (number := _number(word)) < np.inf:
                    raise self.error(f"{shown(word)} in line {line} of {_MATRIX}", "finite costs from 0")
                numbers.append(number)
        is_full = form == "FULL_MATRIX"
        needed = count**2 if is_full else count * (count - 1) // 2
        if len(numbers) != needed:
            expected = f"{needed:,} for {form} of DIMENSION {count}"
            raise self.error(f"{len(numbers):,} numbers in {_MATRIX}", expected)
        matrix = np.zeros((count, count))
        matrix[np.tri(count, k=count if is_full else -1, dtype=bool)] = numbers
        if not is_full:
            matrix += matrix.T
        if np.diag(matrix).any():
            raise self.error(f"a cost from node {np.diag(matrix).argmax() + 1} to itself", "0")
        return matrix
