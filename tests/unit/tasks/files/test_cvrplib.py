"""Files of CVRPLIB: exact costs, and one error message per unsupported constraint."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import Solution, cost
from mcvrp.storage.store.store import Store
from mcvrp.tasks.files.cvrplib import VrpFile, parse_sol, parse_vrp, read_vrp, sol_text
from tests.support.vrp import COORDINATES, EXPLICIT, SMALL

DATA = Path(__file__).parents[3] / "support" / "data"


def small(text: str = SMALL, **options: bool) -> VrpFile:
    return parse_vrp("small.vrp", text.encode(), **options)


def files(folder: Path, vrp: str, sol: str | None = None, **options: bool) -> VrpFile:
    (folder / "a.vrp").write_text(vrp)
    if sol is not None:
        (folder / "a.sol").write_text(sol)
    return read_vrp(Store.open(folder), str(folder / "a.vrp"), **options)


def test_a_published_cost_is_reproduced() -> None:
    """The optimal routes of E-n22-k4 cost the published 375, and 375.28 without rounding."""
    place = str(DATA / "E-n22-k4.vrp")
    vrp = read_vrp(Store.open("."), place)
    assert (vrp.best, vrp.capacity, vrp.city.customers) == (375.0, 6000, 21)
    assert vrp.instance.demands[:3].tolist() == [1100, 700, 800]
    exact = parse_vrp("E.vrp", Path(place).read_bytes(), unrounded=True)
    solution, _ = parse_sol("a.sol", (DATA / "E-n22-k4.sol").read_bytes(), exact)
    assert cost(exact.city, solution) == pytest.approx(375.279787, abs=1e-6)


def test_lengths_are_rounded_to_the_nearest_whole_number() -> None:
    places = [(0, 0), (3, 4), (6, 0), (1, 1)]
    lengths = [[math.dist(a, b) for b in places] for a in places]
    rounded = [[int(length + 0.5) for length in row] for row in lengths]
    assert small().city.matrix.tolist() == rounded  # type: ignore[union-attr]
    for kind, function in (("CEIL_2D", math.ceil), ("FLOOR_2D", math.floor)):
        matrix = small(SMALL.replace("EUC_2D", kind)).city.matrix
        assert np.array_equal(matrix, [[function(length) for length in row] for row in lengths])
    half = small(SMALL.replace("4 1 1", "4 0 2.5")).city.matrix
    assert half is not None
    assert half[0, 3] == 3
    assert small(unrounded=True).city.matrix is None


def test_a_solution_beside_it_has_the_cost_of_the_rounding_in_force(tmp_path: Path) -> None:
    routes = "Route #1: 1 2\nRoute #2: 3\n"
    exact = 2 * math.sqrt(2) + 5 + 5 + 6
    assert files(tmp_path, SMALL, routes + "Cost 18\n").city.matrix is not None
    unrounded = routes + f"Cost {exact:.2f}\n"
    with pytest.raises(
        McvrpError, match=r"a.sol has Cost 18.83, but its routes cost 18 in .* give --unrounded"
    ):
        files(tmp_path, SMALL, unrounded)
    assert files(tmp_path, SMALL, unrounded, unrounded=True).best == pytest.approx(exact)
    with pytest.raises(McvrpError, match=r"a.sol has Cost 18, but its routes cost 18.82.* omit --unrounded"):
        files(tmp_path, SMALL, routes + "Cost 18\n", unrounded=True)


def test_a_large_instance_needs_unrounded_costs(tmp_path: Path) -> None:
    """Only EUC_2D may have them."""
    n = 10_002
    xy = np.random.default_rng(0).integers(0, 1000, (n, 2))
    places = "".join(f"{k} {x} {y}\n" for k, (x, y) in enumerate(xy.tolist(), start=1))
    demands = "1 0\n" + "".join(f"{k} 1\n" for k in range(2, n + 1))
    vrp = SMALL.replace(COORDINATES, f"NODE_COORD_SECTION\n{places}").replace(": 4", f": {n}")
    vrp = vrp.replace("1 0\n2 4\n3 5\n4 6\n", demands)
    with pytest.raises(McvrpError, match=r"has 10,002 nodes, .* use unrounded costs \(--unrounded\)"):
        files(tmp_path, vrp)
    with pytest.raises(McvrpError, match=r"has 10,002 nodes, .*: give a smaller instance"):
        small(vrp.replace("EUC_2D", "CEIL_2D"))
    assert files(tmp_path, vrp, unrounded=True).city.matrix is None
    for text, weights in ((SMALL.replace("EUC_2D", "CEIL_2D"), "CEIL_2D"), (EXPLICIT, "EXPLICIT")):
        with pytest.raises(McvrpError, match=f"--unrounded .* small.vrp are {weights}: omit it"):
            small(text, unrounded=True)


def test_a_solution_is_read_back_as_it_was_written() -> None:
    vrp, solution = small(), Solution.of([[2, 1], [3]])
    text = sol_text(vrp.city, solution)
    assert text == "Route #1: 2 1\nRoute #2: 3\nCost 18\n"
    assert parse_sol("a.sol", text.encode(), vrp) == (solution, 18.0)


@pytest.mark.parametrize(
    "text",
    [
        "Routes: 2\nRoute #1: 2 1\nRoute #2: 3\nCost 18\n",
        "Number of Routes: 2\nCost: 18\nRoute 1 : 2 1\nRoute 2 : 3\n",
        "Comment: Route #1: 1 2\nInstance name : Route 66\nRoute #1: 2 1\nRoute #2: 3\nObjective: 18.00\n",
        "\ufeffroute #1:\t2\t1\r\nroute #2:3\r\nroute #3:\r\nCOST 18\r\nTime 0.3\r\nOptimal: True\r\n",
        "Solution\nAuthors : Bräysy\nRoute #1: 2 1\nRoute #2: 3\nCost 18\nCost 18.0",
    ],
    ids=["routes", "number of routes", "words", "layout", "latin-1"],
)
def test_only_lines_that_begin_as_one_are_routes_of_a_solution(text: str) -> None:
    encoding = "latin-1" if "ä" in text else "utf-8"
    assert parse_sol("a.sol", text.encode(encoding), small()) == (Solution.of([[2, 1], [3]]), 18.0)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("Route #1: 1 2\nCost 15\n", "customer 3 not served"),
        ("Route #1: 1 2 3\nCost 15\n", "route 1 carries 15, a vehicle holds 10"),
        ("Route #1: 1 2\nRoute #2: 3 4\nCost 15\n", "node 4 of route 2"),
        ("Route #1: one two\n", "is not a valid solution (line 1 is 'Route #1: one two')"),
        ("\nRoute #1\n", "is not a valid solution (line 2 is 'Route #1')"),
        ("Route #1: 1 2\nRoute #2: 3\nCost low\n", "is not a valid solution (line 3 is 'Cost low')"),
        ("Route #1: 1 2\nRoute #2: 3_0\n", "(line 2 is 'Route #2: 3_0')"),
        ("Route #1: 1\n2\nRoute #2: 3\n", "(line 2 is '2')"),
        ("37274\n51\n 0 1 1 501 99  5 0 53 131 161 0\n", "(line 1 is '37274')"),
        ("Route #1: 1 2\nRoute #2: 3\nCost 18\nCost 20\n", "has the costs 18.0 and 20.0"),
        (f"Route #1: {'9' * 5000}\n", "(line 1 is 'Route #1: 999"),
    ],
)
def test_a_solution_that_is_none_is_refused(tmp_path: Path, text: str, part: str) -> None:
    with pytest.raises(McvrpError) as raised:
        files(tmp_path, SMALL, text)
    assert str(raised.value).startswith("a.sol")
    assert part in str(raised.value)
