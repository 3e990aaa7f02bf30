"""LKH program based on elkai: reads a parameter file like LKH-3 and writes its tour file.

Run as a script, once per solve: elkai crashes on the second problem of a process, and on a problem that is
passed in memory only. Supports CVRP with straight lines only.
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
    by_name: dict[str, list[str]] = {}
    lines = header
    for line in text.splitlines():
        name = line.strip().removesuffix(":").strip()
        if name.endswith(_SECTION):
            lines = by_name.setdefault(name, [])
        elif name == "EOF":
            break
        elif name:
            lines.append(line)
    return header, by_name


def main(parameter_file: str) -> None:
    """Solve the problem that ``parameter_file`` names."""
    from elkai import _elkai

    options = parameters(Path(parameter_file).read_text())
    problem_file, tour_file = options.pop("PROBLEM_FILE"), options.pop("TOUR_FILE")
    header, by_name = sections(Path(problem_file).read_text())
    coordinates = by_name["NODE_COORD_SECTION"]
    with tempfile.TemporaryDirectory() as folder:
        # elkai reads the coordinates from memory and the rest from a file
        rest = Path(folder, "problem.vrp")
        demands = [*by_name["DEMAND_SECTION"], "DEPOT_SECTION", *by_name["DEPOT_SECTION"], "EOF"]
        lines = [*header, "NODE_COORD_SECTION", "DEMAND_SECTION", *demands]
        rest.write_text("\n".join(lines) + "\n")
        settings = [f"{key} = {value}" for key, value in options.items()]
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
