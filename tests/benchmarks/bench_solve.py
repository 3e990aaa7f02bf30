"""`mcvrp solve` on the CVRPLIB instances of a folder: gap to the best known, first routes, time limit.

Each .vrp with a .sol is solved by the whole command. Seconds are wall-clock time: start-up (then there are
savings routes), search, and what the command took beyond its limit. --busy starts that many processes that
compute.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mcvrp.model.problem import gap
from tests.benchmarks.common import arguments


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """Compute in ``count`` processes."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()


def solved(file: Path, options: list[str]) -> list[float]:
    """Return gap (%), seconds of start-up and search, and of the whole command."""
    with tempfile.TemporaryDirectory() as out:
        command = [
            sys.executable,
            "-m",
            "mcvrp.flows.cli.main",
            "solve",
            str(file),
            "--out",
            f"{out}/r",
            "--json",
        ]
        began = time.perf_counter()
        done = subprocess.run([*command, *options], capture_output=True, text=True, check=True)
        whole = time.perf_counter() - began
    summary = json.loads(done.stdout)
    seconds = summary["seconds"]
    behind = float(gap(summary["cost"], summary["best_known"]))
    print(f"{file.stem:16} {behind:7.2f} %  by {summary['found_by']:10} {whole:6.1f} s", flush=True)
    return [behind, seconds["start_up"], seconds["search"], whole]


def main() -> None:
    """Solve all instances and print the means."""
    parser = arguments(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--time-limit", type=float, default=10.0)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--by", default="auto")
    options = parser.parse_args()
    files = [file for file in sorted(options.folder.glob("*.vrp")) if file.with_suffix(".sol").exists()]
    given = ["--time-limit", str(options.time_limit), "--by", options.by]
    with busy(options.busy):
        rows = np.array([solved(file, given) for _ in range(options.repeat) for file in files])
    means, worst = rows.mean(axis=0), rows.max(axis=0)
    beyond = rows[:, 3] - options.time_limit
    print(f"{len(rows)} runs: gap {means[0]:.2f} %, start-up {means[1]:.2f} s (at most {worst[1]:.2f})")
    print(f"search {means[2]:.2f} s, beyond the limit {beyond.mean():+.2f} s (at most {beyond.max():+.2f})")


if __name__ == "__main__":
    main()
