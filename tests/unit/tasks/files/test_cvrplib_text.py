"""The text of CVRPLIB's instances: every layout is read alike, and nothing else is read at all."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pytest
from hypothesis import assume, given, strategies as st

from mcvrp.model.errors import LONGEST, McvrpError
from mcvrp.tasks.files.cvrplib import VrpFile, parse_vrp
from tests.support.vrp import COORDINATES, EXPLICIT, MATRIX, SMALL

# Words that begin a section or end the file, if they are at the start of a line.
NAMES = (
    "GEOFENCE-n6-k3",
    "EOF",
    "zone EOF 7",
    "DEMAND_SECTION is in kg",
    "_SECTION",
    "CAPACITY : 3",
    "",
    "# 1",
)
FORMATS = {  # cells in the order of the file, by the definition of TSPLIB 95, section 1.2.3 (rows, columns)
    "FULL_MATRIX": lambda n: [(i, j) for i in range(n) for j in range(n)],
    "LOWER_ROW": lambda n: [(i, j) for i in range(n) for j in range(i)],
}


ROUNDED = {"EUC_2D": lambda cost: math.floor(cost + 0.5), "CEIL_2D": math.ceil, "FLOOR_2D": math.floor}


def read(text: str) -> VrpFile:
    return parse_vrp("a.vrp", text.encode())


def content(vrp: VrpFile) -> tuple[object, ...]:
    assert vrp.city.matrix is not None
    return (vrp.capacity, vrp.city.xy.tolist(), vrp.city.matrix.tolist(), vrp.demands.tolist())


def refused(text: str) -> str:
    with pytest.raises(McvrpError) as raised:
        read(text)
    message = str(raised.value)
    assert "a.vrp" in message
    assert len(message) <= LONGEST
    return message


@dataclass(frozen=True)
class Layout:
    """Choices that the format leaves open."""

    keyword: Callable[[str], str]  # upper or lower case
    colon: str
    space: str  # between cells
    indent: str
    end: str  # of lines
    encoding: str
    has_eof: bool
    has_end_of_depots: bool  # -1

    def file(self, parts: Iterable[tuple[str, str | list[list[str]]]]) -> bytes:
        """Return the file with the specifications and sections ``parts`` in this order."""
        lines = []
        for keyword, content in parts:
            if isinstance(content, str):
                lines.append(f"{self.keyword(keyword)}{self.colon}{content}")
            else:
                lines += [self.keyword(keyword), "# a comment", ""]
                lines += [self.space.join(row) for row in content]
        text = self.end.join(f"{self.indent}{line}{self.indent}" for line in lines)
        return (text + (f"{self.end}EOF" if self.has_eof else "")).encode(self.encoding)


LAYOUTS = st.builds(
    Layout,
    keyword=st.sampled_from([str.upper, str.lower]),
    colon=st.sampled_from([" : ", ": ", ":", "\t:\t"]),
    space=st.sampled_from([" ", "\t", "  "]),
    indent=st.sampled_from(["", " ", "\t"]),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "latin-1"]),
    has_eof=st.booleans(),
    has_end_of_depots=st.booleans(),
)
SPELLINGS = ("{:.3f}", "{:+.3f}", "{:.12e}", "{:.15g}")


@st.composite
def instances(draw: st.DrawFn) -> tuple[bytes, tuple[object, ...]]:
    """Draw a file in one of the layouts that the format permits, and what it says."""
    layout = draw(LAYOUTS)
    n, capacity = draw(st.integers(2, 6)), draw(st.integers(1, 80_000))
    demands = draw(st.lists(st.integers(1, min(capacity, 65_535)), min_size=n - 1, max_size=n - 1))
    values = st.integers(0, 8_000_000).map(lambda eighths: eighths / 8)
    places = draw(st.lists(st.tuples(values, values), min_size=n, max_size=n))

    def spelled(value: float) -> str:
        return draw(st.sampled_from(SPELLINGS)).format(value)

    weights = draw(st.sampled_from(["EUC_2D", "CEIL_2D", "FLOOR_2D", "EXPLICIT"]))
    parts: list[tuple[str, str | list[list[str]]]] = [
        ("NAME", draw(st.sampled_from(NAMES))),
        ("COMMENT", draw(st.sampled_from(NAMES))),
        ("COMMENT", "Café\x85"),
        ("TYPE", "CVRP"),
        ("DIMENSION", str(n)),
        ("CAPACITY", str(capacity)),
        ("EDGE_WEIGHT_TYPE", layout.keyword(weights)),
        ("DEPOT_SECTION", [["1"], ["-1"]] if layout.has_end_of_depots else [["1"]]),
        ("DEMAND_SECTION", [["1", "0"], *([str(k), str(d)] for k, d in enumerate(demands, start=2))]),
    ]
    rows = [[str(k), spelled(x), spelled(y)] for k, (x, y) in enumerate(places, start=1)]
    read = [list(place) for place in places]
    if weights != "EXPLICIT":
        lengths = [[math.sqrt((x - a) ** 2 + (y - b) ** 2) for a, b in places] for x, y in places]
        matrix = [[float(ROUNDED[weights](length)) for length in row] for row in lengths]
        parts.append(("NODE_COORD_SECTION", rows))
        if draw(st.booleans()):  # for pictures only
            parts.append(("DISPLAY_DATA_SECTION", rows[::-1]))
    else:
        form = draw(st.sampled_from(list(FORMATS)))
        matrix, words = [[0.0] * n for _ in range(n)], []
        for i, j in FORMATS[form](n):
            matrix[i][j] = draw(values) if i != j else 0.0
            if form != "FULL_MATRIX":
                matrix[j][i] = matrix[i][j]
            words.append(spelled(matrix[i][j]))
        width = draw(st.integers(1, n * n))
        lines = [words[k : k + width] for k in range(0, len(words), width)]
        parts += [("EDGE_WEIGHT_FORMAT", layout.keyword(form)), ("EDGE_WEIGHT_SECTION", lines)]
        parts.append((draw(st.sampled_from(["NODE_COORD_SECTION", "DISPLAY_DATA_SECTION"])), rows))
    return layout.file(draw(st.permutations(parts))), (capacity, read, matrix, demands)


@given(instances())
def test_an_instance_is_the_same_in_every_layout(drawn: tuple[bytes, tuple[object, ...]]) -> None:
    data, expected = drawn
    assert content(parse_vrp("a.vrp", data)) == expected


LINES = SMALL.splitlines()


@pytest.mark.parametrize("text", [SMALL, EXPLICIT], ids=["coordinates", "matrix"])
def test_no_change_of_a_line_makes_another_instance(text: str) -> None:
    """A line that is lost, repeated, or moved is refused, unless the instance remains the same."""
    lines, same = text.splitlines(), content(read(text))
    changes = [[*lines[:k], *lines[k + 1 :]] for k in range(len(lines))]
    changes += [[*lines[:k], lines[k], *lines[k:]] for k in range(len(lines))]
    for i, j in itertools.permutations(range(len(lines)), 2):
        rest = [*lines[:i], *lines[i + 1 :]]
        changes.append([*rest[:j], lines[i], *rest[j:]])
    outcomes = set()
    for changed in changes:
        try:
            outcomes.add(content(read("\n".join(changed))) == same)
        except McvrpError:
            outcomes.add(None)
    assert outcomes == {True, None}


def spec(line: str, before: str = "CAPACITY") -> str:
    return SMALL.replace(before, f"{line}\n{before}", 1)


UNREAD = ["SERVICE : 9", "SERVICE_TIME : 0.5", "FLEET : 2", "VEHICLES : 2", "TRUCKS : 0", "DISTANCE : 30"]
UNREAD += ["ROUTE_LIMIT : 30", "MTSP_MAX_SIZE : 2", "DEMAND_DIMENSION : 2"]
DEMANDS = SMALL[SMALL.index("DEMAND_S") : SMALL.index("DEPOT_S")]
WHOLE = "expected a whole number from"
REFUSED = {
    "empty": ("", "has no DIMENSION"),
    "prose": ("a table of mine\nx, y\n", "line 1, 'a table of mine', is neither"),
    "another problem": (
        SMALL.replace(": CVRP", ": CVRPTW"),
        "TYPE 'CVRPTW' in line 3: expected CVRP or ACVRP",
    ),
    "capacity in words": (SMALL.replace(": 10", ": ten"), f"CAPACITY 'ten' in line 6: {WHOLE} 1"),
    "capacity twice": (spec("CAPACITY : 7"), "has CAPACITY twice, in lines 6 and 7"),
    "dimension": (SMALL.replace(": 4", ": 5"), "has 4 rows in NODE_COORD_SECTION: expected DIMENSION, 5"),
    "no customers": (SMALL.replace(": 4", ": 1"), f"DIMENSION '1' in line 4: {WHOLE} 2"),
    "no depot": (SMALL.replace("DEPOT_SECTION\n1\n-1\n", ""), "has '' in DEPOT_SECTION: expected 1"),
    "two depots": (SMALL.replace("\n1\n-1\n", "\n1\n2\n-1\n"), "has '1 2 -1' in DEPOT_SECTION"),
    "weights twice": (spec("EDGE_WEIGHT_TYPE : CEIL_2D"), "has EDGE_WEIGHT_TYPE twice, in lines 5 and 6"),
    "section twice": (SMALL.replace("DEPOT_S", f"{COORDINATES}DEPOT_S"), "has NODE_COORD_SECTION twice"),
    **{line: (spec(line), f"{line.split()[0]} in line 6 of a.vrp is not read") for line in UNREAD},
    "other section": (SMALL.replace("DEPOT_S", "PRIZE_SECTION\n2 9\nDEPOT_S"), "PRIZE_SECTION in line 17 of"),
    "no demands": (SMALL.replace(DEMANDS, ""), "has 0 rows in DEMAND_SECTION"),
    "no coordinates": (SMALL.replace(COORDINATES, ""), "has 0 rows in NODE_COORD_SECTION"),
    "a matrix without": (EXPLICIT.replace(COORDINATES, ""), "has 0 rows in DISPLAY_DATA_SECTION"),
    "order of rows": (
        SMALL.replace("2 3 4\n3 6 0", "3 6 0\n2 3 4"),
        "has '3 6 0' in line 9, row 2 of NODE_COORD_SECTION: expected 2 and 2 numbers",
    ),
    "a word": (SMALL.replace("2 3 4", "2 zero 9"), "has '2 zero 9' in line 9"),
    "far away": (SMALL.replace("2 3 4", "2 3 -1e308"), "has '2 3 -1e308' in line 9"),
    "space": (SMALL.replace("2 3 4", "2 3 4 5"), "has '2 3 4 5' in line 9"),
    "large demand": (
        SMALL.replace("4 6\n", "4 16\n"),
        "has the demand '16' for node 4 in line 16: expected a whole number from 1 to 10",
    ),
    "demand of the depot": (
        SMALL.replace("1 0\n2 4", "1 3\n2 4"),
        "has the demand '3' for node 1 in line 13",
    ),
    "weights": (SMALL.replace("EUC_2D", "GEO"), "EDGE_WEIGHT_TYPE 'GEO' in line 5: expected EUC_2D or"),
    "a matrix beside": (
        SMALL.replace("DEMAND_S", MATRIX + "DEMAND_S"),
        "has a section EDGE_WEIGHT_SECTION: expected none with EDGE_WEIGHT_TYPE EUC_2D",
    ),
    "other format": (EXPLICIT.replace("FULL_MATRIX", "FUNCTION"), "EDGE_WEIGHT_FORMAT 'FUNCTION' in line 6"),
    "short matrix": (
        EXPLICIT.replace("9 5 6 0", "9 5 6"),
        "has 15 numbers in EDGE_WEIGHT_SECTION: expected 16",
    ),
    "cell in words": (EXPLICIT.replace("1 0 4 5", "1 0 x 5"), "has 'x' in line 15 of EDGE_WEIGHT_SECTION"),
    "negative cost": (EXPLICIT.replace("1 0 4 5", "1 0 -4 5"), "has '-4' in line 15 of EDGE_WEIGHT_SECTION"),
    "endless cost": (EXPLICIT.replace("1 0 4 5", "1 0 1e999 5"), "has '1e999' in line 15"),
    "cost of staying": (EXPLICIT.replace("9 5 6 0", "9 5 6 7"), "has a cost from node 4 to itself"),
    "no colon": (spec("CAPACITY 7"), "line 6, 'CAPACITY 7', is neither 'KEYWORD : VALUE' nor in a section"),
    "a long keyword": (spec(f"{'A' * 5000} : 1"), "line 6, 'AAA"),
    "text of a section": (spec("DEMAND_SECTION : kg"), "line 6, 'DEMAND_SECTION : kg', is neither"),
    "text after the end": (SMALL + "\n\nDEPOT_SECTION\n2\n", "has line 23, 'DEPOT_SECTION', after EOF"),
    **{
        f"{place} {number}": (SMALL.replace(f"\n{place}\n", f"\n{place[:-1]}{number}\n"), f"{number}'")
        for number in ("3.5", "1_0", "9" * 19)
        for place in ("DIMENSION : 4", "2 4")
    },
}


@pytest.mark.parametrize(("text", "part"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_read_is_refused_by_its_line(text: str, part: str) -> None:
    assert part in refused(text)


@given(
    keyword=st.from_regex(r"[A-Z][A-Z0-9_]{0,20}", fullmatch=True),
    value=st.sampled_from(["1", "30", "yes", ""]),
    at=st.integers(0, len(LINES) - 1),
)
def test_no_other_keyword_is_ignored(keyword: str, value: str, at: int) -> None:
    """Wherever it stands, a specification that is not known is refused by name or line."""
    assume(f"{keyword} :" not in SMALL and keyword != "EOF" and not keyword.endswith("_SECTION"))
    message = refused("\n".join([*LINES[:at], f"{keyword} : {value}", *LINES[at:]]))
    assert f"{keyword} in line {at + 1} of" in message or f"line {at + 2}, " in message


@pytest.mark.parametrize("keyword", ["DISTANCE", "SERVICE_TIME", "VEHICLES"])
@pytest.mark.parametrize("value", ["0", "0.0000"])
def test_a_limit_of_zero_is_none(keyword: str, value: str) -> None:
    assert content(read(spec(f"{keyword} : {value}"))) == content(read(SMALL))


HARMLESS = (
    *("BEST_KNOWN : 521", "DISPLAY_DATA_TYPE : NO_DISPLAY", "NODE_COORD_TYPE : TWOD_COORDS"),
    *("EDGE_WEIGHT_FORMAT : FUNCTION", "COMMENT : more"),
)


@pytest.mark.parametrize("line", HARMLESS)
def test_lines_without_a_meaning_for_routes_are_accepted(line: str) -> None:
    assert content(read(spec(line))) == content(read(SMALL))
