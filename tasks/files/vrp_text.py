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
from mcvrp.tasks.files.file_bytes import LARGEST, Faults
from mcvrp.tasks.support.text import listed

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


_Keywords = Mapping[str, Line]  # with the value of a specification, "" for a section
_Rows = Mapping[str, Sequence[Line]]  # by the keyword of their section


@dataclass(frozen=True, eq=False)
class VrpText:
    """Content of a .vrp file, node 1 (the depot) in row 0."""

    weights: str  # EDGE_WEIGHT_TYPE
    places: NDArray[np.float64] | None  # coordinates, (m + 1, 2); None only with a matrix
    matrix: NDArray[np.float64] | None  # explicit costs, (m + 1, m + 1)
    demands: NDArray[np.int64]  # of the customers, (m,), from 1 to the capacity
    capacity: int


def vrp_text(name: str, data: bytes) -> VrpText:
    """Return the parsed ``data`` of the file ``name``; McvrpError if it is not valid or not a CVRP."""
    keywords, rows = _parts(name, data)
    _choice(name, keywords, "TYPE", ("CVRP", "ACVRP"), "CVRP")
    _refuse_unread(name, keywords)
    _choice(name, keywords, "NODE_COORD_TYPE", ("TWOD_COORDS", "NO_COORDS"), "TWOD_COORDS")
    count, capacity = _whole(name, keywords, "DIMENSION"), _whole(name, keywords, "CAPACITY")
    if count < 2:
        raise McvrpError(f"{name} has a depot and no customers: add at least one")
    _check_depot(name, rows)
    demands = _demands(name, rows, count, capacity)
    weights = _choice(name, keywords, "EDGE_WEIGHT_TYPE", _WEIGHTS)
    if weights == "EXPLICIT":
        matrix = _explicit(name, keywords, rows, count)
        title = next((title for title in (_PLACES, _DISPLAY) if title in rows), None)
    else:
        if beside := keywords.get(_MATRIX):
            raise McvrpError(
                f"{name} has EDGE_WEIGHT_TYPE {weights} and, in line {beside.number}, {_MATRIX}: remove it, "
                "or give EDGE_WEIGHT_TYPE EXPLICIT"
            )
        _choice(name, keywords, "EDGE_WEIGHT_FORMAT", ("FUNCTION",), "FUNCTION")
        if _PLACES not in rows:
            raise McvrpError(f"{name} has no {_PLACES}, from which {weights} is computed: add it")
        matrix, title = None, _PLACES
    places = _numbered(name, title, rows[title], count, 2) if title else None
    return VrpText(weights, places, matrix, demands, capacity)


def text_lines(data: bytes) -> Iterator[Line]:
    """Yield the lines of ``data`` without surrounding spaces; not empty ones and those that begin with #."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")  # only names and comments are not ASCII
    for number, line in enumerate(_LINE_END.split(text), start=1):
        if (line := line.strip()) and not line.startswith("#"):
            yield Line(number, line)


def _parts(name: str, data: bytes) -> tuple[_Keywords, _Rows]:
    keywords, sections = dict[str, Line](), dict[str, list[Line]]()
    rows: list[Line] | None = None
    lines = text_lines(data)
    for line in lines:
        keyword, colon, value = (part.strip() for part in line.text.partition(":"))
        keyword = keyword.upper()
        if keyword == "EOF" and not value:
            break
        is_section = keyword.endswith("_SECTION")
        if _KEYWORD.fullmatch(keyword) and (not value if is_section else colon):
            first = keywords.setdefault(keyword, Line(line.number, value))
            if first.number != line.number and keyword != "COMMENT" and (is_section or first.text != value):
                raise McvrpError(
                    f"{name} has {keyword} twice, in lines {first.number} and {line.number}: keep one of them"
                )
            rows = sections.setdefault(keyword, []) if is_section else None
        elif rows is not None:
            rows.append(line)
        else:
            raise McvrpError(
                f"{name} is not a valid .vrp file (line {line.number}, {shown(line.text)}, is neither "
                "'KEYWORD : VALUE' nor in a section): export it again"
            )
    if after := next(lines, None):
        raise McvrpError(f"{name} has line {after.number}, {shown(after.text)}, after EOF: remove it")
    return keywords, sections


def _refuse_unread(name: str, keywords: _Keywords) -> None:
    for keyword, (number, value) in keywords.items():
        if keyword not in _READ and not (keyword in _LIMITS and whole(value) == 0):
            where = f"{keyword} in line {number} of {name}"
            raise McvrpError(f"{where} is not read, so no routes here respect it: remove it to route without")


def _choice(name: str, keywords: _Keywords, keyword: str, choices: Sequence[str], default: str = "") -> str:
    number, value = keywords.get(keyword, Line(0, default))
    if value.upper() not in choices:
        found = f"{keyword} {shown(value)} in line {number}" if number else f"no {keyword}"
        raise McvrpError(f"{name} has {found}: give {' or '.join(choices)}")
    return value.upper()


def _whole(name: str, keywords: _Keywords, keyword: str) -> int:
    if keyword not in keywords:
        raise McvrpError(f"{name} has no {keyword}: add a line '{keyword} : NUMBER' at its head")
    number, text = keywords[keyword]
    value = whole(text)
    if value is None or not 1 <= value <= _LARGEST:
        raise McvrpError(
            f"{name} has {keyword} {shown(text)} in line {number}: give a whole number from 1 to {_LARGEST:,}"
        )
    return value


def _check_depot(name: str, rows: _Rows) -> None:
    words = [word for _, text in rows.get(_DEPOT, []) for word in text.split()]
    if words not in (["1"], ["1", "-1"]):
        found = f"the depots {listed(words)}" if words else "no depot"
        raise McvrpError(
            f"{name} has {found}: end it with {_DEPOT}, 1 and -1, since a city has one depot, its node 1"
        )


def _numbered(name: str, title: str, rows: Sequence[Line], count: int, width: int) -> NDArray[np.float64]:
    """Return the rows of a section without their numbers 1 to ``count``, float64 ``(count, width)``."""
    faults, values = Faults(name), np.full((len(rows), width), np.nan)
    for k, (line, text) in enumerate(rows):
        number, *words = text.split()
        row = [float(word) for word in words if NUMBER.fullmatch(word)]
        where = f"line {line}, row {k + 1} of {title},"
        if whole(number) != k + 1 or not len(row) == len(words) == width or not np.isfinite(row).all():
            numbers = "a number" if width == 1 else f"{width} numbers"
            faults.add(f"{where} is {shown(text)}, not {k + 1} and {numbers}", line)
        elif title != _DEMANDS and max(map(abs, row)) > LARGEST:
            place = ", ".join(f"{number:g}" for number in row)
            faults.add(f"{where} ({place}), is beyond {LARGEST:g}: use a larger unit", line)
        else:
            values[k] = row
    faults.check()
    if len(rows) != count:
        raise McvrpError(f"{name} has DIMENSION {count}, but {len(rows)} rows in {title}: make them equal")
    return values


def _demands(name: str, rows: _Rows, count: int, capacity: int) -> NDArray[np.int64]:
    if _DEMANDS not in rows:
        raise McvrpError(f"{name} has no {_DEMANDS}: add it with one row per node, 0 for the depot")
    demands = _numbered(name, _DEMANDS, rows[_DEMANDS], count, 1)[:, 0]
    faults = Faults(name)
    if demands[0] != 0:
        faults.add(f"the depot has the demand {demands[0]:g}, not 0")
    most = min(capacity, _MOST_DEMAND)
    for number, text in rows[_DEMANDS][1:]:
        node, demand = text.split()
        if not 1 <= (whole(demand) or 0) <= most:
            fault = f"node {node} has the demand {shown(demand)}, not a whole number from 1 to {most:,}"
            faults.add(f"line {number}: {fault}", number)
    faults.check()
    return demands[1:].astype(np.int64)


def _explicit(name: str, keywords: _Keywords, rows: _Rows, count: int) -> NDArray[np.float64]:
    form = _choice(name, keywords, "EDGE_WEIGHT_FORMAT", _FORMATS)
    if _MATRIX not in rows:
        raise McvrpError(f"{name} has EDGE_WEIGHT_TYPE EXPLICIT, but no {_MATRIX}: add it")
    numbers = np.concatenate([np.empty(0), *(_costs(name, line) for line in rows[_MATRIX])])
    full, diagonal = form == "FULL_MATRIX", "_DIAG_" in form
    needed = count**2 if full else count * (count - 1) // 2 + diagonal * count
    if len(numbers) != needed:
        raise McvrpError(
            f"{_MATRIX} of {name} has {len(numbers):,} numbers, {form} of DIMENSION {count} needs "
            f"{needed:,}: make them equal"
        )
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
        raise McvrpError(f"{name} has a cost from node {np.diag(matrix).argmax() + 1} to itself: set it to 0")
    return matrix


def _costs(name: str, line: Line) -> NDArray[np.float64]:
    words = line.text.split()
    where = f"{_MATRIX} of {name} has in line {line.number}"
    if stray := next((word for word in words if not NUMBER.fullmatch(word)), None):
        raise McvrpError(f"{where} the cell {shown(stray)}, not a number: correct it")
    costs = np.array(words, dtype=np.float64)
    if not (np.isfinite(costs) & (costs >= 0)).all():
        raise McvrpError(f"{where} a negative or infinite cost: give finite costs from 0")
    return costs
