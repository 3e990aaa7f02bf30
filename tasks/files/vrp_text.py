"""Text of CVRPLIB's instances (.vrp): what it says, checked; what asks for more than capacities is refused.

Lines and sections are taken apart by vrplib, which checks little: rows out of order, of another number than
DIMENSION, or with words in place of numbers would pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from vrplib.parse.parse_distances import parse_distances
from vrplib.parse.parse_utils import text2lines
from vrplib.parse.parse_vrplib import group_specifications_and_sections

from mcvrp.model.errors import McvrpError, reason, shown
from mcvrp.tasks.files.faults import LARGEST, Faults
from mcvrp.tasks.files.numbers import NUMBER, whole
from mcvrp.tasks.support.text import FLEET, LENGTH, TIME, listed, refusal

_TYPES, _FORMATS = ("CVRP", "ACVRP"), ("FULL_MATRIX", "LOWER_ROW")
_WEIGHTS = ("EUC_2D", "CEIL_2D", "FLOOR_2D", "EXPLICIT")
_SECTIONS = ("NODE_COORD", "DISPLAY_DATA", "EDGE_WEIGHT", "DEMAND", "DEPOT")
_PLACES = _SECTIONS[:2]
_MOST = 2**16 - 1  # of a demand: instances keep them in 16 bits
_LARGEST = 2**32 - 1  # of nodes, and of a capacity
_CONSTRAINTS = {"DISTANCE": LENGTH, "DURATION": LENGTH, "TIME": TIME, "VEHICLES": FLEET, "SALESMEN": FLEET}

_Rows = Mapping[str, Sequence[str]]  # of each section


@dataclass(frozen=True, eq=False)
class VrpText:
    """Instance as its file has it, node 1 (the depot) in row 0.

    Parameters
    ----------
    weights
        EDGE_WEIGHT_TYPE.
    places
        Coordinates, float64 ``(m + 1, 2)``; None only beside a matrix.
    matrix
        Explicit costs, float64 ``(m + 1, m + 1)``; None where they are computed from the places.
    demands
        Of the customers, int64 ``(m,)``, from 1 to the capacity.
    capacity
        What a vehicle holds.
    """

    weights: str
    places: NDArray[np.float64] | None
    matrix: NDArray[np.float64] | None
    demands: NDArray[np.int64]
    capacity: int


def vrp_text(name: str, data: bytes) -> VrpText:
    """Return what ``data``, the bytes of the file ``name``, say.

    Raises
    ------
    McvrpError
        If it is no instance, contradicts itself, or asks for more than capacities.
    """
    specs, sections = _parts(name, data)
    if (kind := specs.get("TYPE", "CVRP")) not in _TYPES:
        raise McvrpError(f"{name} is of TYPE {shown(kind)}: give an instance of TYPE CVRP")
    _refuse_constraints(name, specs, sections)
    count, capacity = _whole(name, specs, "DIMENSION"), _whole(name, specs, "CAPACITY")
    if count < 2:
        raise McvrpError(f"{name} has a depot and no customers: add one at least")
    _check_depot(name, sections)
    demands = _demands(name, sections, count, capacity)
    weights = specs.get("EDGE_WEIGHT_TYPE", "")
    if weights not in _WEIGHTS:
        raise McvrpError(f"{name} has EDGE_WEIGHT_TYPE {shown(weights)}: give one of {listed(_WEIGHTS)}")
    matrix = _explicit(name, specs, sections, count) if weights == "EXPLICIT" else None
    title = next((title for title in _PLACES if title in sections), None)
    if title is None and matrix is None:
        raise McvrpError(f"{name} has no NODE_COORD_SECTION, which {weights} is computed from: add it")
    places = _numbered(name, title, sections[title], count, 2) if title else None
    if places is not None and title is not None:
        _check_places(name, title, places)
    return VrpText(weights, places, matrix, demands, capacity)


def _parts(name: str, data: bytes) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return specifications and the rows of sections by their names."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")  # only names and comments are more than ASCII
    lines = text2lines(text)
    try:
        specs, sections = group_specifications_and_sections(lines)
    except (RuntimeError, ValueError) as error:
        stray = next((line for line in lines if ":" not in line and "_SECTION" not in line), "")
        why = reason(error) if isinstance(error, ValueError) else f"{shown(stray)} is no 'KEY : VALUE'"
        raise McvrpError(f"{name} is no instance of CVRPLIB ({why}): export it again") from error
    found: dict[str, str] = {}
    for line in specs:
        key, value = line.split(":", 1)
        found[key.strip().upper()] = value.strip()
    rows: dict[str, list[str]] = {}
    for section in sections:
        title = section[0].strip(" :").removesuffix("_SECTION")
        if title in rows:
            raise McvrpError(f"{name} has {title}_SECTION twice: keep one of them")
        rows[title] = section[1:]
    return found, rows


def _refuse_constraints(name: str, specs: Mapping[str, str], sections: _Rows) -> None:
    for key, value in specs.items():
        for word, what in _CONSTRAINTS.items():
            if word in key.split("_") and value not in ("0", "0.0"):
                raise McvrpError(refusal(f"{key} of {name}", what, "remove it"))
    if unknown := [f"{title}_SECTION" for title in sections if title not in _SECTIONS]:
        raise McvrpError(refusal(f"{unknown[0]} of {name}", "more than capacities", "remove it"))


def _whole(name: str, specs: Mapping[str, str], key: str) -> int:
    if key not in specs:
        raise McvrpError(f"{name} does not say {key}: add a line '{key} : NUMBER' at its head")
    value = whole(specs[key])
    if value is None or not 1 <= value <= _LARGEST:
        raise McvrpError(f"{name} has {key} {shown(specs[key])}: give a whole number from 1 to {_LARGEST:,}")
    return value


def _check_depot(name: str, sections: _Rows) -> None:
    depots = [word for row in sections.get("DEPOT", []) for word in row.split()]
    depots = depots[: depots.index("-1")] if "-1" in depots else depots
    if not depots:
        raise McvrpError(f"{name} names no depot: end it with the lines DEPOT_SECTION, 1 and -1")
    if len(depots) > 1:
        raise McvrpError(
            f"{name} has {len(depots)} depots ({listed(depots)}): a city has one, split it into one for each"
        )
    if depots[0] != "1":
        raise McvrpError(
            f"the depot of {name} is node {depots[0]}: make it node 1, as solutions count customers behind it"
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
        else:
            values[k] = row
    faults.check()
    if len(lines) != count:
        raise McvrpError(
            f"{name} has DIMENSION {count} and {len(lines)} rows in {title}_SECTION: make them equal"
        )
    return values


def _check_places(name: str, title: str, places: NDArray[np.float64]) -> None:
    faults = Faults(name)
    for k in np.flatnonzero((np.abs(places) > LARGEST).any(axis=1)):
        x, y = places[k]
        faults.add(
            f"row {k + 1} of {title}_SECTION, ({x:g}, {y:g}) is beyond {LARGEST:g}: write it in a larger unit"
        )
    faults.check()


def _demands(name: str, sections: _Rows, count: int, capacity: int) -> NDArray[np.int64]:
    if "DEMAND" not in sections:
        raise McvrpError(f"{name} has no DEMAND_SECTION: add it with a row for each node, the depot's with 0")
    demands = _numbered(name, "DEMAND", sections["DEMAND"], count, 1)[:, 0]
    faults = Faults(name)
    if demands[0] != 0:
        faults.add(f"the depot has the demand {demands[0]:g}: it has to be 0")
    most = min(capacity, _MOST)
    for k, line in enumerate(sections["DEMAND"][1:], start=2):
        demand = line.split()[1]
        if not 1 <= (whole(demand) or 0) <= most:
            faults.add(f"node {k} has the demand {shown(demand)}, no whole number from 1 to {most:,}")
    faults.check()
    return demands[1:].astype(np.int64)


def _explicit(name: str, specs: Mapping[str, str], sections: _Rows, count: int) -> NDArray[np.float64]:
    form = specs.get("EDGE_WEIGHT_FORMAT", "")
    if form not in _FORMATS:
        raise McvrpError(f"{name} has EDGE_WEIGHT_FORMAT {shown(form)}: give one of {listed(_FORMATS)}")
    if "EDGE_WEIGHT" not in sections:
        raise McvrpError(f"{name} has EDGE_WEIGHT_TYPE EXPLICIT and no EDGE_WEIGHT_SECTION: add it")
    try:
        numbers = np.array(" ".join(sections["EDGE_WEIGHT"]).split(), dtype=np.float64)
    except ValueError as error:
        raise McvrpError(
            f"{name} has in EDGE_WEIGHT_SECTION what is no number ({reason(error)}): correct it"
        ) from error
    needed = count**2 if form == "FULL_MATRIX" else count * (count - 1) // 2
    if len(numbers) != needed:
        raise McvrpError(
            f"{name} has {len(numbers):,} numbers in EDGE_WEIGHT_SECTION, {form} of DIMENSION {count} is "
            f"{needed:,}: give as many"
        )
    if not (np.isfinite(numbers) & (numbers >= 0)).all():
        raise McvrpError(f"{name} has a cost below 0, or none at all, in EDGE_WEIGHT_SECTION: give 0 or more")
    rows = numbers.reshape(count, count) if form == "FULL_MATRIX" else [numbers]
    matrix: NDArray[np.float64] = parse_distances(rows, "EXPLICIT", form)
    if np.diag(matrix).any():
        raise McvrpError(f"{name} has a cost from node {np.diag(matrix).argmax() + 1} to itself: make it 0")
    return matrix
