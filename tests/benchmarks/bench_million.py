"""A million labels through a slow object store: python -m tests.benchmarks.bench_million FOLDER [--labels N].

A city of 10,000, sizes 20 to 100, budget `thrifty`: HGS alone on a part of the instances, then `mcvrp label`
into the S3 server of the tests at 30 ms per request, then `mcvrp verify`. Everything is in FOLDER, and the
same command resumes a run that was stopped (Ctrl-C or SIGTERM). samples.csv has a line per minute, label.log
the command's output; --report prints the tables of what was measured.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import psutil

from mcvrp.tasks.solvers.budgets import budget_for
from mcvrp.tasks.support.machine import hardware, local_cores
from mcvrp.tasks.support.processes import below, start_group, stop_group
from tests.benchmarks.bench_labels import bare
from tests.benchmarks.common import append_row, arguments, command, heading, read_rows, row
from tests.support.s3_proxy import KINDS, Conditions, Proxy
from tests.support.s3_server import S3Server, serving

SIZES = range(20, 101)
BUCKET = "million"
SLOW = Conditions(latency=0.03)
SAMPLE_SECONDS = 60.0
_TICK, _PAUSE = 2.0, 10.0  # seconds; a tick that takes longer means that all processes were stopped
_END_SECONDS = 120.0  # for a stopped `mcvrp label`
_DONE = re.compile(rf"labels {BUCKET}: ([\d,]+)/")
FIELDS = ("start", "time", "seconds", "labels", "driver_mb", "driver_cpu", "all_cpu", "files")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--labels", type=int, default=1_000_000)
    parser.add_argument("--bare", type=int, default=100, help="instances per size for HGS alone")
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    options.count = -(-options.labels // len(SIZES))
    folder: Path = options.folder.absolute()
    if not options.report:
        folder.mkdir(parents=True, exist_ok=True)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        with serving(folder / "s3") as endpoint:
            measure(Run(folder, S3Server(endpoint), Proxy(endpoint, SLOW), options))
    report(folder, options.count)


@dataclass
class Run:
    """One start of the script."""

    folder: Path
    server: S3Server
    proxy: Proxy
    options: argparse.Namespace
    start: int = field(init=False)

    def __post_init__(self) -> None:
        os.environ |= self.server.environment(endpoint=self.proxy.endpoint)
        os.environ["PREFECT_HOME"] = str(self.folder / "prefect")
        os.environ["MCVRP_CACHE"] = str(self.folder / "cache")
        self.start = 1 + len(read_rows(self.folder / "starts.jsonl"))

    def command(self, name: str) -> list[str]:
        changes = [f"city.name={BUCKET}", "city.customers=10000"]
        if name != "city create":
            changes += f"label.smallest={SIZES[0]}", f"label.largest={SIZES[-1]}", "label.held_out=0"
            changes += f"label.dataset={BUCKET}", f"label.count={self.options.count}"
        return command(name, "evening", f"s3://{BUCKET}/store", *changes)

    def objects(self) -> dict[str, int]:
        """Return the sizes of the dataset's objects, listed past the proxy."""
        pages = self.server.client().get_paginator("list_objects_v2")
        listed = pages.paginate(Bucket=BUCKET, Prefix=f"store/labels/{BUCKET}/")
        return {each["Key"]: each["Size"] for page in listed for each in page.get("Contents", ())}


def measure(run: Run) -> None:
    """Measure HGS alone, label what is missing, and verify it."""
    load, alone = os.getloadavg()[0], bare_seconds(run.options.bare)
    append_row(run.folder / "starts.jsonl", {"bare": alone, "load": load})
    run.server.client().create_bucket(Bucket=BUCKET)
    subprocess.run(run.command("city create"), check=True, stdout=subprocess.DEVNULL)
    with started(run, "label") as process:
        sample(run, process)
    if process.returncode:
        sys.exit(f"mcvrp label ended with {process.returncode}: see {run.folder / 'label.log'}")
    objects = run.objects()
    data = sum(size for path, size in objects.items() if "/data/" in path)
    with run.proxy.counted() as counts:
        verify = subprocess.run([*run.command("verify"), "--json"], stdout=subprocess.PIPE, check=False)
    result = json.loads(verify.stdout)
    result |= {"data": data, "all": sum(objects.values()), "requests": counts.total()}
    (run.folder / "verified.json").write_text(json.dumps(result))


@contextmanager
def started(run: Run, name: str) -> Iterator[subprocess.Popen[str]]:
    """Start ``mcvrp NAME`` with its output in NAME.log; on exit it is terminated, if it has not ended."""
    with (run.folder / f"{name}.log").open("a") as log:
        process = start_group(run.command(name), stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.terminate()  # alone: it ends its own processes
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_SECONDS)
        stop_group(process)


def bare_seconds(count: int) -> list[float]:
    """Return the processor seconds per label of HGS alone by size, with all cores busy."""
    with ProcessPoolExecutor(local_cores()) as pool:
        return list(pool.map(_bare, SIZES, [count] * len(SIZES)))


def _bare(n: int, count: int) -> float:
    began = time.process_time()
    bare(n, budget_for("thrifty", n), range(count))
    return (time.process_time() - began) / count


@dataclass
class Usage:
    """Memory in MB of a process, and processor seconds of all that are or were below it."""

    process: psutil.Process
    memory: float = 0.0
    seconds: dict[psutil.Process, float] = field(default_factory=dict)

    def look(self) -> None:
        for each in [self.process, *below(self.process.pid)]:
            with suppress(psutil.NoSuchProcess):
                self.seconds[each] = sum(each.cpu_times()[:2])
        with suppress(psutil.NoSuchProcess):
            self.memory = self.process.memory_info().rss / 1e6 or self.memory  # 0 once it has ended


def sample(run: Run, process: subprocess.Popen[str]) -> None:
    """Write a line per minute until ``process`` ends; pauses of the whole machine do not count as time."""
    path, usage, seconds = run.folder / "samples.csv", Usage(psutil.Process(process.pid)), 0.0
    new = not path.exists()
    with path.open("a", newline="") as stream:
        table = csv.writer(stream)
        if new:
            table.writerow((*FIELDS, *KINDS))
        while process.poll() is None:
            due = seconds + SAMPLE_SECONDS
            while seconds < due and process.poll() is None:
                began = time.monotonic()
                time.sleep(_TICK)
                usage.look()
                tick = time.monotonic() - began
                seconds += tick if tick < _PAUSE else _TICK
            paths, used = run.objects(), usage.seconds
            measured = (
                *(round(seconds), labels_done(run.folder), round(usage.memory, 1)),
                *(round(number, 1) for number in (used.get(usage.process, 0.0), sum(used.values()))),
                sum("/data/" in path for path in paths),
                *(run.proxy.counts[kind] for kind in KINDS),
            )
            table.writerow((run.start, time.strftime("%Y-%m-%d %H:%M:%S"), *measured))
            stream.flush()


def labels_done(folder: Path) -> int:
    """Return the labels of the last line of progress."""
    with (folder / "label.log").open("rb") as stream:
        stream.seek(max(0, stream.seek(0, os.SEEK_END) - 2**16))
        found = _DONE.findall(stream.read().decode(errors="replace"))
    return int(found[-1].replace(",", "")) if found else 0


def report(folder: Path, count: int) -> None:
    """Print a row per start and tenth of the labels, each of what came since the one before."""
    starts, tenth = read_rows(folder / "starts.jsonl"), len(SIZES) * count / 10
    loads = ", ".join(f"{each['load']:.1f}" for each in starts)
    print(f"{hardware()}; load before each start: {loads}\n")
    heading(
        *("start", "minutes", "labels", "labels/s", "labels per s of a core", "HGS alone", "ratio"),
        *("driver, MB", "its cores", "files", "requests/min", "requests per 1,000 labels"),
    )
    with (folder / "samples.csv").open() as stream:
        lines = [each | {"time": 0} for each in csv.DictReader(stream)]
    samples = [{name: float(value) for name, value in each.items()} for each in lines]
    before = dict.fromkeys(samples[0], 0.0)
    for (start, _), group in groupby(samples, lambda each: (each["start"], each["labels"] // tenth)):
        *_, now = group
        if start != before["start"]:  # labels stay, all else begins at zero
            before = {name: before[name] * (name == "labels") for name in before}
        new = {name: now[name] - before[name] for name in now}
        minutes, requests = new["seconds"] / 60, sum(new[kind] for kind in KINDS)
        bare = starts[int(start) - 1]["bare"]
        # sizes are labelled one after the other
        parts = (
            min(now["labels"], count * (k + 1)) - max(before["labels"], count * k) for k in range(len(bare))
        )
        alone = sum(max(0.0, part) * seconds for part, seconds in zip(parts, bare, strict=True))
        row(
            *(int(start), f"{now['seconds'] / 60:.0f}", f"{now['labels']:,.0f}"),
            *(f"{number:.1f}" for number in (new["labels"] / minutes / 60, new["labels"] / new["all_cpu"])),
            *(f"{new['labels'] / (alone or 1):.1f}", f"{alone / new['all_cpu']:.2f}"),
            *(f"{now['driver_mb']:.0f}", f"{new['driver_cpu'] / minutes / 60:.3f}"),
            *(int(now["files"]), f"{requests / minutes:.1f}"),
            f"{1000 * requests / (new['labels'] or 1):.2f}",
        )
        before = now
    if (path := folder / "verified.json").exists():
        done = json.loads(path.read_text())
        rows, seconds = done["rows"], done["seconds"]
        print()
        heading(
            "verified", "files", "good", "minutes", "labels/s", "requests", "bytes/label", "with all else"
        )
        row(
            *(f"{rows:,}", done["files"], done["good"], f"{seconds / 60:.1f}", f"{rows / seconds:,.0f}"),
            *(done["requests"], f"{done['data'] / rows:.1f}", f"{done['all'] / rows:.1f}"),
        )


if __name__ == "__main__":
    main()
