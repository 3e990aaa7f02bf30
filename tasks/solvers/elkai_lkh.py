"""One run of the LKH in elkai: reads its texts as JSON from standard input and writes the tour to a file.

Run as a script, once per solve: elkai crashes on the second problem of a process, and on a problem that is
passed in memory only.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main(tour_file: str) -> None:
    """Solve the problem; elkai reads its coordinates from memory and the rest from a file."""
    from elkai import _elkai

    parameters, coordinates = json.load(sys.stdin)
    Path(tour_file).write_text(json.dumps(_elkai.solve_problem(parameters, coordinates)))


if __name__ == "__main__":
    main(sys.argv[1])
