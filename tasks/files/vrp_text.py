"""Parser of CVRPLIB's instances (.vrp); constraints other than capacity are refused.

vrplib splits lines and sections, but accepts rows out of order, a wrong number of them, and words in place of
numbers, which are checked here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from vrplib.parse.parse_utils import text2lines
from vrplib.parse.parse_vrplib import group_specifications_and_sections

from mcvrp.model.errors import McvrpError, reason, shown
from mcvrp.tasks.files.csv_cells import NUMBER, whole
from mcvrp.tasks.files.file_bytes import LARGEST, Faults
from mcvrp.tasks.support.text import FLEET, LENGTH, TIME, listed, refusal

_TYPES, _FORMATS = ("CVRP", "ACVRP"), ("FULL_MATRIX", "LOWER_ROW")
_WEIGHTS = ("EUC_2D", "CEIL_2D", "FLOOR_2D", "EXPLICIT")
_SECTIONS = ("NODE_COORD", "DISPLAY_DATA", "EDGE_WEIGHT", "DEMAND", "DEPOT")
_PLACES = _SECTIONS[:2]
_MOST_DEMAND = 2**16 - 1  # instances store demands in 16 bits
_LARGEST = 2**32 - 1  # number of nodes, capacity
_CONSTRAINTS = {"DISTANCE": LENGTH, "DURATION": LENGTH, "TIME": TIME, "VEHICLES": FLEET, "SALESMEN": FLEET}

_Rows = Mapping[str, Sequence[str]]  # by section


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
    specs, sections = _parts(name, data)
    if (kind := specs.get("TYPE", "CVRP")) not in _TYPES:
        raise McvrpError(f"{name} has TYPE {shown(kind)}: give an instance of TYPE CVRP")
    _refuse_constraints(name, specs, sections)
    count, capacity = _whole(name, specs, "DIMENSION"), _whole(name, specs, "CAPACITY")
    if count < 2:
        raise McvrpError(f"{name} has a depot and no customers: add at least one")
    _check_depot(name, sections)
    demands = _demands(name, sections, count, capacity)
    weights = specs.get("EDGE_WEIGHT_TYPE", "")
    if weights not in _WEIGHTS:
        raise McvrpError(f"{name} has EDGE_WEIGHT_TYPE {shown(weights)}: give one of {listed(_WEIGHTS)}")
    matrix = _explicit(name, specs, sections, count) if weights == "EXPLICIT" else None
    title = next((title for title in _PLACES if title in sections), None)
    if title is None and matrix is None:
        raise McvrpError(f"{name} has no NODE_COORD_SECTION, from which {weights} is computed: add it")
    places = _numbered(name, title, sections[title], count, 2) if title else None
    return VrpText(weights, places, matrix, demands, capacity)


def _parts(name: str, data: bytes) -> tuple[dict[str, str], dict[str, list[str]]]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")  # only names and comments are not ASCII
    lines = text2lines(text)
    try:
        specs, sections = group_specifications_and_sections(lines)
    except (RuntimeError, ValueError) as error:
        stray = next((line for line in lines if ":" not in line and "_SECTION" not in line), "")
        why = reason(error) if isinstance(error, ValueError) else f"{shown(stray)} is not 'KEY : VALUE'"
        raise McvrpError(f"{name} is not a valid .vrp file ({why}): export it again") from error
    pairs = (line.split(":", 1) for line in specs)
    values = {key.strip().upper(): value.strip() for key, value in pairs}
    rows: dict[str, list[str]] = {}
    for section in sections:
        title = section[0].strip(" :").removesuffix("_SECTION")
        if title in rows:
            raise McvrpError(f"{name} has {title}_SECTION twice: keep one of them")
        rows[title] = section[1:]
    return values, rows


def _refuse_constraints(name: str, specs: Mapping[str, str], sections: _Rows) -> None:
    for key, value in specs.items():
        for word, what in _CONSTRAINTS.items():
            if word in key.split("_") and value not in ("0", "0.0"):
                raise McvrpError(refusal(f"{key} of {name}", what, "remove it"))
    if unknown := [f"{title}_SECTION" for title in sections if title not in _SECTIONS]:
        raise McvrpError(refusal(f"{unknown[0]} of {name}", "more than capacities", "remove it"))


def _whole(name: str, specs: Mapping[str, str], key: str) -> int:
    if key not in specs:
        raise McvrpError(f"{name} has no {key}: add a line '{key} : NUMBER' at its head")
    value = whole(specs[key])
    if value is None or not 1 <= value <= _LARGEST:
        raise McvrpError(f"{name} has {key} {shown(specs[key])}: give a whole number from 1 to {_LARGEST:,}")
    return value


def _check_depot(name: str, sections: _Rows) -> None:
    depots = [word for row in sections.get("DEPOT", []) for word in row.split()]
    depots = depots[: depots.index("-1")] if "-1" in depots else depots
    if not depots:
        raise McvrpError(f"{name} has no depot: end it with the lines DEPOT_SECTION, 1 and -1")
    if len(depots) > 1:
        raise McvrpError(
            f"{name} has {len(depots)} depots ({listed(depots)}): a city has one, split it by depot"
        )
    if depots[0] != "1":
        raise McvrpError(
            f"the depot of {name} is node {depots[0]}: make it node 1, since solutions count from it"
        )


def _numbered(name: str, title: str, lines: Sequence[str], count: int, width: int) -> NDArray[np.float64]:
    """Return the rows of a section without their numbers 1 to ``count``, float64 ``(count, width)``."""
    faults, values = Faults(name), np.full((len(lines), width), np.nan)
    for k, line in enumerate(lines):
        number, *words = line.split() or [""]
        row = [float(word) for word in words if NUMBER.fullmatch(word)]
        if whole(number) != k + 1 or not len(row) == len(words) == width or not np.isfinite(row).all():
            numbers = "a number" if width == 1 else f"{width} numbers"
            faults.add(f"row {k + 1} of {title}_SECTION is {shown(line)}, not {k + 1} and {numbers}")
        elif title in _PLACES and max(map(abs, row)) > LARGEST:
            place = ", ".join(f"{number:g}" for number in row)
            faults.add(f"row {k + 1} of {title}_SECTION, ({place}), is beyond {LARGEST:g}: use a larger unit")
        else:
            values[k] = row
    faults.check()
    if len(lines) != count:
        raise McvrpError(
            f"{name} has DIMENSION {count}, but {len(lines)} rows in {title}_SECTION: make them equal"
        )
    return values


def _demands(name: str, sections: _Rows, count: int, capacity: int) -> NDArray[np.int64]:
    if "DEMAND" not in sections:
        raise McvrpError(f"{name} has no DEMAND_SECTION: add it with one row per node, 0 for the depot")
    demands = _numbered(name, "DEMAND", sections["DEMAND"], count, 1)[:, 0]
    faults = Faults(name)
    if demands[0] != 0:
        faults.add(f"the depot has the demand {demands[0]:g}, not 0")
    most = min(capacity, _MOST_DEMAND)
    for k, line in enumerate(sections["DEMAND"][1:], start=2):
        demand = line.split()[1]
        if not 1 <= (whole(demand) or 0) <= most:
            faults.add(f"node {k} has the demand {shown(demand)}, not a whole number from 1 to {most:,}")
    faults.check()
    return demands[1:].astype(np.int64)


def _explicit(name: str, specs: Mapping[str, str], sections: _Rows, count: int) -> NDArray[np.float64]:
    form = specs.get("EDGE_WEIGHT_FORMAT", "")
    if form not in _FORMATS:
        raise McvrpError(f"{name} has EDGE_WEIGHT_FORMAT {shown(form)}: give one of {listed(_FORMATS)}")
    if "EDGE_WEIGHT" not in sections:
        raise McvrpError(f"{name} has EDGE_WEIGHT_TYPE EXPLICIT, but no EDGE_WEIGHT_SECTION: add it")
    words = " ".join(sections["EDGE_WEIGHT"]).split()
    if stray := next((word for word in words if not NUMBER.fullmatch(word)), None):
        raise McvrpError(
            f"EDGE_WEIGHT_SECTION of {name} has the cell {shown(stray)}, not a number: correct it"
        )
    numbers = np.array(words, dtype=np.float64)
    needed = count**2 if form == "FULL_MATRIX" else count * (count - 1) // 2
    if len(numbers) != needed:
        raise McvrpError(
            f"EDGE_WEIGHT_SECTION of {name} has {len(numbers):,} numbers, {form} of DIMENSION {count} needs "
            f"{needed:,}: make them equal"
        )
    if not (np.isfinite(numbers) & (numbers >= 0)).all():
        raise McvrpError(
            f"EDGE_WEIGHT_SECTION of {name} has a negative or infinite cost: give finite costs from 0"
        )
    if form == "FULL_MATRIX":
        matrix = numbers.reshape(count, count)
    else:
        matrix = np.zeros((count, count))
        matrix[np.tril_indices(count, -1)] = numbers
        matrix += matrix.T
    if np.diag(matrix).any():
        raise McvrpError(f"{name} has a cost from node {np.diag(matrix).argmax() + 1} to itself: set it to 0")
    return matrix
