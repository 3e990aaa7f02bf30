"""Parser of CVRPLIB's instances (.vrp); whatever it does not read is refused by name and line.

The format is TSPLIB's: specifications 'KEYWORD : VALUE' and sections of rows, in any order, up to EOF. A line
begins with its keyword, so names and comments may contain any word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcvrp.model.errors import McvrpError, shown
from mcvrp.tasks.files.csv_cells import NUMBER, whole
from mcvrp.tasks.files.file_bytes import LARGEST

_PLACES, _DISPLAY, _MATRIX = "NODE_COORD_SECTION", "DISPLAY_DATA_SECTION", "EDGE_WEIGHT_SECTION"
_DEMANDS, _DEPOT = "DEMAND_SECTION", "DEPOT_SECTION"
_READ = {
    *("TYPE", "DIMENSION", "CAPACITY", "EDGE_WEIGHT_TYPE", "EDGE_WEIGHT_FORMAT", "NODE_COORD_TYPE"),
    *("NAME", "COMMENT", "BEST_KNOWN", "DISPLAY_DATA_TYPE"),  # routes do not depend on these
    *(_PLACES, _DISPLAY, _MATRIX, _DEMANDS, _DEPOT),
}
_WEIGHTS = ("EUC_2D", "CEIL_2D", "FLOOR_2D", "EXPLICIT")
_FORMATS = (
    *("FULL_MATRIX", "LOWER_ROW", "LOWER_DIAG_ROW", "UPPER_ROW", "UPPER_DIAG_ROW"),
    *("LOWER_COL", "LOWER_DIAG_COL", "UPPER_COL", "UPPER_DIAG_COL"),
)
_LIMITS = ("DISTANCE", "SERVICE_TIME", "VEHICLES")  # 0 in public instances: no limit
_MOST_DEMAND = 2**16 - 1  # instances store demands in 16 bits
_LARGEST = 2**32 - 1  # number of nodes, capacity
_KEYWORD = re.compile("[A-Z][A-Z0-9_]{,39}")
_LINE_END = re.compile("\r\n?|\n")  # str.splitlines also splits at the ellipsis of Windows-1252


class Line(NamedTuple):
    """A line of a file, or the value in it."""

    number: int  # from 1
    text: str


@dataclass(frozen=True, eq=False)
class VrpText:
    """Content of a .vrp file, node 1 (the depot) in row 0."""

    weights: str  # EDGE_WEIGHT_TYPE
    places: NDArray[np.float64]  # coordinates, (m + 1, 2)
    matrix: NDArray[np.float64] | None  # explicit costs, (m + 1, m + 1)
    demands: NDArray[np.int64]  # of the customers, (m,), from 1 to the capacity
    capacity: int


def vrp_text(name: str, data: bytes) -> VrpText:
    """Return the parsed ``data`` of the file ``name``; McvrpError if it is not valid or not a CVRP."""
    file = _File.parsed(name, data)
    file.choice("TYPE", ("CVRP", "ACVRP"), "CVRP")
    file.refuse_unread()
    file.choice("NODE_COORD_TYPE", ("TWOD_COORDS", "NO_COORDS"), "TWOD_COORDS")
    count, capacity = file.whole("DIMENSION", 2), file.whole("CAPACITY", 1)
    depots = [word for _, text in file.rows.get(_DEPOT, ()) for word in text.split()]
    if depots not in (["1"], ["1", "-1"]):
        raise file.error(f"{shown(' '.join(depots))} in {_DEPOT}", "1, the depot, and -1")
    weights = file.choice("EDGE_WEIGHT_TYPE", _WEIGHTS)
    if weights == "EXPLICIT":
        matrix = file.matrix(count)
        title = _PLACES if _PLACES in file.rows else _DISPLAY
    elif _MATRIX in file.values:
        raise file.wrong(_MATRIX, f"none with EDGE_WEIGHT_TYPE {weights}")
    else:
        file.choice("EDGE_WEIGHT_FORMAT", ("FUNCTION",), "FUNCTION")
        matrix, title = None, _PLACES
    return VrpText(weights, file.numbered(title, count, 2), matrix, file.demands(count, capacity), capacity)


def text_lines(data: bytes) -> Iterator[Line]:
    """Yield the lines of ``data`` without surrounding spaces; not empty ones and those that begin with #."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")  # only names and comments are not ASCII
    for number, line in enumerate(_LINE_END.split(text), start=1):
        if (line := line.strip()) and not line.startswith("#"):
            yield Line(number, line)


@dataclass(frozen=True)
class _File:
    """Parts of the file ``name``, by keyword."""

    name: str
    values: Mapping[str, Line]  # of specifications; "" for a section
    rows: Mapping[str, Sequence[Line]]  # of sections

    @classmethod
    def parsed(cls, name: str, data: bytes) -> _File:
        values, sections = dict[str, Line](), dict[str, list[Line]]()
        rows: list[Line] | None = None
        lines = text_lines(data)
        for line in lines:
            keyword, colon, value = (part.strip() for part in line.text.partition(":"))
            keyword = keyword.upper()
            if keyword == "EOF" and not value:
                break
            is_section = keyword.endswith("_SECTION")
            if _KEYWORD.fullmatch(keyword) and (not value if is_section else colon):
                first = values.setdefault(keyword, Line(line.number, value))
                is_second = first.number != line.number and (is_section or first.text != value)
                if is_second and keyword != "COMMENT":
                    where = f"lines {first.number} and {line.number}"
                    raise McvrpError(f"{name} has {keyword} twice, in {where}: keep one of them")
                rows = sections.setdefault(keyword, []) if is_section else None
            elif rows is not None:
                rows.append(line)
            else:
                where = (
                    f"line {line.number}, {shown(line.text)}, is neither 'KEYWORD : VALUE' nor in a section"
                )
                raise McvrpError(f"{name} is not a valid .vrp file: {where}")
        if after := next(lines, None):
            raise McvrpError(f"{name} has line {after.number}, {shown(after.text)}, after EOF: remove it")
        return cls(name, values, sections)

    def refuse_unread(self) -> None:
        for keyword, (number, value) in self.values.items():
            if keyword not in _READ and not (keyword in _LIMITS and whole(value) == 0):
                why = "is not read, so no routes here respect it: remove it to route without"
                raise McvrpError(f"{keyword} in line {number} of {self.name} {why}")

    def error(self, found: str, expected: str) -> McvrpError:
        return McvrpError(f"{self.name} has {found}: expected {expected}")

    def wrong(self, keyword: str, expected: str) -> McvrpError:
        """Return the error of a specification."""
        number, value = self.values.get(keyword, Line(0, ""))
        return self.error(
            f"{keyword} {shown(value)} in line {number}" if number else f"no {keyword}", expected
        )

    def choice(self, keyword: str, choices: Sequence[str], default: str = "") -> str:
        value = self.values.get(keyword, Line(0, default)).text.upper()
        if value not in choices:
            raise self.wrong(keyword, " or ".join(choices))
        return value

    def whole(self, keyword: str, least: int) -> int:
        value = whole(self.values.get(keyword, Line(0, "")).text)
        if value is None or not least <= value <= _LARGEST:
            raise self.wrong(keyword, f"a whole number from {least} to {_LARGEST:,}")
        return value

    def numbered(self, title: str, count: int, width: int) -> NDArray[np.float64]:
        """Return the rows of a section without their numbers 1 to ``count``, float64 ``(count, width)``."""
        rows, values = self.rows.get(title, ()), list[list[float]]()
        for k, (line, text) in enumerate(rows, start=1):
            number, *words = text.split()
            values.append([float(word) for word in words if NUMBER.fullmatch(word)])
            is_row = whole(number) == k and len(values[-1]) == len(words) == width
            if not is_row or max(map(abs, values[-1])) > LARGEST:
                expected = f"{k} and {width} numbers up to {LARGEST:g}" if width > 1 else f"{k} and a number"
                raise self.error(f"{shown(text)} in line {line}, row {k} of {title}", expected)
        if len(rows) != count:
            raise self.error(f"{len(rows)} rows in {title}", f"DIMENSION, {count}")
        return np.array(values)

    def demands(self, count: int, capacity: int) -> NDArray[np.int64]:
        """Return the demands of the customers, ``(count - 1,)``."""
        self.numbered(_DEMANDS, count, 1)
        demands, most = list[int](), min(capacity, _MOST_DEMAND)
        for line, text in self.rows[_DEMANDS]:
            node, word = text.split()
            low, high = (1, most) if demands else (0, 0)  # the depot comes first
            demand = whole(word)
            if demand is None or not low <= demand <= high:
                expected = f"a whole number from 1 to {most:,}" if demands else "0 for the depot"
                raise self.error(f"the demand {shown(word)} for node {node} in line {line}", expected)
            demands.append(demand)
        return np.array(demands[1:])

    def matrix(self, count: int) -> NDArray[np.float64]:
        """Return the explicit costs, ``(count, count)``."""
        form = self.choice("EDGE_WEIGHT_FORMAT", _FORMATS)
        numbers = np.concatenate([np.empty(0), *map(self.costs, self.rows.get(_MATRIX, ()))])
        full, diagonal = form == "FULL_MATRIX", "_DIAG_" in form
        needed = count**2 if full else count * (count - 1) // 2 + diagonal * count
        if len(numbers) != needed:
            expected = f"{needed:,} for {form} of DIMENSION {count}"
            raise self.error(f"{len(numbers):,} numbers in {_MATRIX}", expected)
        if full:
            matrix = numbers.reshape(count, count)
        else:
            # the columns of an upper triangle are the rows of a lower one
            is_lower = form.startswith("LOWER_") == form.endswith("_ROW")
            lower = np.tri(count, k=0 if is_lower == diagonal else -1, dtype=bool)
            matrix = np.zeros((count, count))
            matrix[lower if is_lower else ~lower] = numbers
            matrix += matrix.T
        if np.diag(matrix).any():
            raise self.error(f"a cost from node {np.diag(matrix).argmax() + 1} to itself", "0")
        return matrix

    def costs(self, line: Line) -> NDArray[np.float64]:
        words = line.text.split()
        costs = np.array([float(word) if NUMBER.fullmatch(word) else np.nan for word in words])
        if not (valid := np.isfinite(costs) & (costs >= 0)).all():
            cell = shown(words[valid.argmin()])
            raise self.error(f"{cell} in line {line.number} of {_MATRIX}", "finite costs from 0")
        return costs
