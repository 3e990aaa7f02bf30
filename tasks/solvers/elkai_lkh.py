"""An LKH program made of elkai: reads a parameter file as LKH-3 does, writes the tour file that it names.

Run it as a script, once a solve: elkai crashes on the second problem in a process, and on a
problem that it is given in memory alone. It knows CVRP on straight lines and nothing else.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

_SECTION = "_SECTION"


def parameters(text: str) -> dict[str, str]:
    """Return the "KEY = value" lines of a parameter file, keys in capitals."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {key.strip().upper(): value.strip() for key, _, value in pairs}


def sections(text: str) -> tuple[list[str], dict[str, list[str]]]:
    """Return the header lines of a problem file and the lines of each of its sections."""
    header: list[str] = []
    found: dict[str, list[str]] = {}
    lines = header
    for line in text.splitlines():
        name = line.strip().removesuffix(":").strip()
        if name.endswith(_SECTION):
            lines = found.setdefault(name, [])
        elif name == "EOF":
            break
        elif name:
            lines.append(line)
    return header, found


def main(parameter_file: str) -> None:
    """Solve the problem that ``parameter_file`` names."""
    from elkai import _elkai

    wanted = parameters(Path(parameter_file).read_text())
    problem_file, tour_file = wanted.pop("PROBLEM_FILE"), wanted.pop("TOUR_FILE")
    header, found = sections(Path(problem_file).read_text())
    coordinates = found["NODE_COORD_SECTION"]
    with tempfile.TemporaryDirectory() as folder:
        # elkai reads the coordinates from memory and all the rest from a file
        rest = Path(folder, "problem.vrp")
        demands = [*found["DEMAND_SECTION"], "DEPOT_SECTION", *found["DEPOT_SECTION"], "EOF"]
        lines = [*header, "NODE_COORD_SECTION", "DEMAND_SECTION", *demands]
        rest.write_text("\n".join(lines) + "\n")
        settings = [f"{key} = {value}" for key, value in wanted.items()]
        text = "\n".join(["SPECIAL", f"PROBLEM_FILE = {rest}", *settings]) + "\n"
        tour = _elkai.solve_problem(text, "\n" + "\n".join(coordinates) + "\n")
    if not tour:
        sys.exit("elkai found no tour")
    Path(tour_file).write_text(
        "\n".join(["TYPE : TOUR", f"DIMENSION : {len(tour)}", "TOUR_SECTION", *map(str, tour), "-1", "EOF"])
        + "\n"
    )


if __name__ == "__main__":
    main(sys.argv[1])
