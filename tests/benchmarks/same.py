"""Equality of two trees' results: the smoke preset's pipeline, a night and a day, by content.

    python tests/benchmarks/same.py make DIR [--mcvrp "python -m flows.cli"]
    python tests/benchmarks/same.py compare DIR OTHER

`make` runs the command as a user does, from nothing, into DIR/store. `compare` hashes the results column by
column, tensor by tensor, value by value, prints one line per artifact, and exits with 1 if any differs.
Nothing of the project is imported: columns or keys identify the kind of a file.

Left out are times, what tells of the machine, and names, paths and checksums of files. Of the benchmark's
equal-time methods, which end by the clock, routes and costs are left out too; everything else ends by
counts. Floating point is a machine's own: compare what was made on machines of one kind, with the same
libraries.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import random
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from safetensors import deserialize

Parts = dict[str, str]  # hash of each part of an artifact: a column, a tensor, a value
Digest = dict[str, Parts]  # parts of each artifact, by kind and location

# Ranks are as many on every machine. The night learns enough to promote.
RUN = ("train.ranks=2",)
NIGHT = (
    *("nightly.ranks=1", "nightly.passes=40", "nightly.lr=0.003"),
    *("nightly.samples=4", "nightly.instances=16"),
)
DAY = ("--samples", "32", "--seed", "1", "--by", "model", "--time-limit", "3600")
CUSTOMERS = 50  # of the smoke preset's city, called 1 to 50

# Kind of a file: the first whose columns or keys it has. Files of no kind are derived from others, or specs.
TABLES = {
    "labels": {"ids", "demands", "capacity", "routes", "cost"},
    "benchmark": {"method", "n", "index", "costs", "routes"},
    "training": {"step", "problem_loss", "solution_loss"},
    "pairs of a night": {"champion", "challenger"},
    "city": {"x", "y"},
}
TEXTS = {"routes": {"route", "stop", "customer"}}  # CSV: driven or solved
DOCUMENTS = {
    "decision": {"promote", "reasons"},
    "figures of a night": {"buckets", "p_values"},
    "alias": {"version", "history"},
    "city": {"city_id", "classes", "scale"},
    "checkpoint": {"adam_step", "origin"},
    "model": {"weights_sha256", "fingerprint", "metrics"},
    "attention model": {"weights_sha256", "epochs"},
    "benchmark figures": {"gaps_up_to"},
    "solution": {"cost", "samples", "demand"},
    "route map": {"type", "features"},
}
LEFT_OUT = re.compile(
    r"runtime.*|seconds|tokens_per_second|when|decoding|polishing"  # times
    r"|cpu|device|workers|machine|hardware|by|makers"  # the machine, and who worked on it
    r"|name|names|path|files|run|dataset|parent|why|markdown|format|schema_version"  # names
    r"|.*bytes|.*sha256|content|digest|provenance"  # of files, times and all
)
BY_THE_CLOCK = "equal time"  # in the name of a method: its answers are left out
ANSWERS = ("cost", "costs", "routes")


def make(folder: Path, mcvrp: list[str]) -> None:
    if folder.exists() and any(folder.iterdir()):
        sys.exit(f"{folder} is not empty: earlier results would count as new ones")
    store = folder / "store"
    (store / "incoming").mkdir(parents=True)
    for month in (3, 4):
        for name, days in (("month", range(1, 15)), ("refused", range(15, 16))):
            (store / "incoming" / f"{name}-{month}.csv").write_text(_driven(month, days))
    (folder / "orders.csv").write_text(_orders())
    ours = ("PREFECT_", "MCVRP_", "RAY_ADDRESS")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)} | {
        "PREFECT_HOME": str(folder / "prefect"),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "CUDA_VISIBLE_DEVICES": "",  # sums are made in another order on a GPU
        "RAY_worker_niceness": "0",
    }
    solve = ["solve", str(folder / "orders.csv"), "--capacity", "40", *DAY]
    commands = (
        ["run", *_set(RUN)],
        ["nightly", *_set(NIGHT)],
        [*solve, "--out", str(store / "solutions" / "day")],
    )
    for command in commands:
        began = time.monotonic()
        whole = [*mcvrp, *command, "--preset", "smoke", "--store", str(store)]
        with (folder / f"{command[0]}.log").open("w") as log:
            done = subprocess.run(whole, env=environment, stdout=log, stderr=subprocess.STDOUT)
        if done.returncode > (command[0] == "nightly"):  # which ends with 1, as there are files to refuse
            sys.exit(f"{shlex.join(whole)} ended with {done.returncode}: see {log.name}")
        print(f"{command[0]:8} {time.monotonic() - began:4.0f} s", file=sys.stderr)


def _set(changes: Iterable[str]) -> list[str]:
    return [word for change in changes for word in ("--set", change)]


def _driven(month: int, days: Iterable[int]) -> str:
    """Return a file of routes; the fifteenth has a customer that the city does not have."""
    lines = ["date,route,stop,customer,demand,capacity"]
    for day in days:
        draw = random.Random(100 * month + day)
        customers = draw.sample(range(1, CUSTOMERS + 1), 20 + day % 3)
        for k, customer in enumerate(customers):
            customer = CUSTOMERS + 1 if day == 15 and k == 0 else customer
            # six stops of at most 6 fit into any of these vehicles
            place = f"2025-{month:02}-{day:02},{k // 6},{k % 6 + 1},{customer}"
            lines.append(f"{place},{draw.randint(1, 6)},{36 + day % 5}")
    return "\n".join(lines) + "\n"


def _orders() -> str:
    draw = random.Random(1)
    customers = draw.sample(range(1, CUSTOMERS + 1), 21)
    rows = [f"{customer},{draw.randint(1, 9)}" for customer in [*customers, customers[0]]]
    return "\n".join(["customer,demand", *rows]) + "\n"


def digest(folder: Path) -> Digest:
    store, tables, hashes = folder / "store", dict[str, list[pa.Table]](), Digest()
    for path in sorted(path for path in store.rglob("*") if path.is_file()):
        place = path.relative_to(store)
        if path.suffix in (".parquet", ".csv"):
            table = pq.ParquetFile(path).read() if path.suffix != ".csv" else _csv(path)
            if kind := _kind(TABLES if path.suffix != ".csv" else TEXTS, table.column_names):
                tables.setdefault(f"{kind}: {place.parent}", []).append(table)
        elif path.suffix == ".safetensors":
            tensors = deserialize(path.read_bytes())  # type: ignore[no-untyped-call]
            hashes[f"weights: {place}"] = {name: _hash(sorted(tensor.items())) for name, tensor in tensors}
        elif path.suffix in (".json", ".geojson"):
            document = json.loads(path.read_bytes())
            if kind := _kind(DOCUMENTS, document):
                hashes[f"{kind}: {place}"] = {name: _hash(value) for name, value in _values(document)}
    for name, several in tables.items():
        for what, table in _by_method(pa.concat_tables(several, promote_options="default")):
            kept = [column for column in table.column_names if not LEFT_OUT.fullmatch(column)]
            hashes[name + what] = {column: _hash(table[column].to_pylist()) for column in kept}
    if not hashes:
        sys.exit(f"{store} has nothing that could be compared")
    return hashes


def _csv(path: Path) -> pa.Table:
    with path.open(newline="") as file:
        return pa.Table.from_pylist(list(csv.DictReader(file)))


def _kind(kinds: Mapping[str, set[str]], names: Iterable[str]) -> str | None:
    return next((kind for kind, needed in kinds.items() if needed <= set(names)), None)


def _values(document: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if not isinstance(document, dict | list):
        yield name, document
        return
    for key, value in document.items() if isinstance(document, dict) else enumerate(document):
        if not LEFT_OUT.fullmatch(str(key)) and BY_THE_CLOCK not in str(key):
            yield from _values(value, f"{name}.{key}".lstrip("."))


def _by_method(table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    if "method" not in table.column_names:
        yield "", table
        return
    kept = [column for column in table.column_names if column not in ANSWERS]
    for method in dict.fromkeys(table["method"].to_pylist()):
        own = table.filter(pa.compute.equal(table["method"], method))
        yield f", {method}", own.select(kept) if BY_THE_CLOCK in method else own


def _hash(content: Any) -> str:
    # repr of a float is exact, and so is that of bytes
    return hashlib.sha256(repr(content).encode()).hexdigest()[:12]


def compare(old: Digest, new: Digest) -> bool:
    """Print one line per artifact; return whether all are equal."""
    for name in sorted(old.keys() | new.keys()):
        if name in old and name in new:
            parts = sorted({part for part, _ in old[name].items() ^ new[name].items()})
            print(f"{'DIFFERS' if parts else 'same':8}{name} {', '.join(parts)}".rstrip())
        else:
            print(f"{'MISSING' if name in old else 'NEW':8}{name}")
    return old == new


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    making = verbs.add_parser("make")
    making.add_argument("folder", type=Path)
    making.add_argument("--mcvrp", type=shlex.split, default=[str(Path(sys.executable).with_name("mcvrp"))])
    comparing = verbs.add_parser("compare")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    options = parser.parse_args()
    if options.verb == "compare":
        return 0 if compare(digest(options.old), digest(options.new)) else 1
    make(options.folder.absolute(), options.mcvrp)
    return 0


if __name__ == "__main__":
    sys.exit(main())
