"""All measurements that a GPU machine is worth, by falling value, within the limit of one call.

`python -m tests.gpu.measure FOLDER [--seconds 600]`: each measurement is a command whose output goes to
FOLDER/NAME.txt as it comes. One that has ended well is not repeated by the next call; one that the limit
interrupts ends 30 s before it, and resumes if it keeps its work. `--small` rehearses all on a processor.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

_MARGIN = 30.0  # seconds that are left for what the caller does with the results
_STOP_SECONDS = 10.0  # that a command may take to end after Ctrl-C
_LEAST = 20.0  # seconds: less is not worth a start


@dataclass(frozen=True)
class Measurement:
    name: str
    module: str
    arguments: tuple[str, ...]


def measurements(store: str, small: bool) -> list[Measurement]:
    """Return all measurements, the most valuable first; ``store`` is made by them."""
    device = ("--device", "cpu") if small else ("--device", "cuda")
    tiny = ("--small",) if small else ()
    preset = ("--preset", "smoke" if small else "gpu", "--store", store)
    cli = "mcvrp.flows.cli.main"
    return [
        Measurement("check", "tests.gpu.check", (*device, *tiny, "--no-compile")),
        Measurement("city", cli, ("city", "create", *preset)),
        Measurement("label", cli, ("label", *preset)),
        Measurement("train", cli, ("train", *preset)),
        Measurement("benchmark", cli, ("benchmark", *preset)),
        Measurement("compiled", "tests.gpu.check", (*device, *tiny)),
        Measurement("attention", cli, ("am", *preset, "--set", "attention.sizes=[20]")),
    ]


def measure(folder: Path, each: Measurement, seconds: float) -> bool:
    """Run ``each`` for at most ``seconds``, its output in ``folder``; return whether it has ended well."""
    with (folder / f"{each.name}.txt").open("a") as out:
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", each.module, *each.arguments], stdout=out, stderr=out
        )
        began = time.monotonic()
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            code = -1
        out.write(f"\nexit code {code} after {time.monotonic() - began:.0f} s\n")
    return code == 0


def main(arguments: list[str] | None = None) -> int:
    """Measure what FOLDER lacks; return the number of measurements that are still missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=600.0, help="limit of this call")
    parser.add_argument("--small", action="store_true", help="rehearse on a processor")
    options = parser.parse_args(arguments)
    until, missing = time.monotonic() + options.seconds - _MARGIN, 0
    options.folder.mkdir(parents=True, exist_ok=True)
    for each in measurements(str(options.folder / "store"), options.small):
        done = options.folder / f"{each.name}.done"
        left = until - time.monotonic()
        if not done.exists() and left > _LEAST and measure(options.folder, each, left - _STOP_SECONDS):
            done.touch()
        missing += not done.exists()
        print(f"{each.name}: {'done' if done.exists() else 'missing'}", flush=True)
    return missing


if __name__ == "__main__":
    sys.exit(main())
