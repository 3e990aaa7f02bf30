"""Growth of Prefect's database, SQLite, per command: python -m tests.benchmarks.bench_records.

Rows by table and megabytes of a pipeline run, nights, labels of the preset `smoke`, and an idle UI per hour.
"""

from __future__ import annotations

import datetime
import sqlite3
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from mcvrp.model.instances import InstanceStream
from mcvrp.storage.cities import load_city
from mcvrp.storage.store.store import Store
from mcvrp.tasks.support.machine import hardware
from tests.benchmarks.common import arguments, heading, row
from tests.support.command import Workplace
from tests.support.labels import put_routes, sweep
from tests.support.ui import mcvrp_ui

TABLES = ("flow_run", "task_run", "log", "artifact", "events", "event_resources")
# Labels of 0.2 s by two workers that sleep: what is recorded depends on the time alone.
_LABEL = """
import sys
from mcvrp.flows.config import settings
settings.prepare(verbose=False)
from mcvrp.flows.server.server import prefect_server
with prefect_server():
    from mcvrp.flows.label import label
    from mcvrp.tasks.label import LabelSpec
    from tests.support.stand_in import ASLEEP
    label("smoke", LabelSpec(
        dataset="long", smallest=20, largest=20, count=int(sys.argv[1]), shard_rows=1000, solver=ASLEEP,
        time_limit=0.2, workers=2,
    ))
"""
_ROOT = str(Path(__file__).parents[2])


@dataclass(frozen=True)
class Contents:
    """Rows by table, and bytes in use, of Prefect's database."""

    rows: dict[str, int]
    bytes: int = 0
    artifacts: int = 0  # of the bytes
    events: int = 0

    @classmethod
    def of(cls, place: Workplace) -> Contents:
        by_table = "SELECT s.tbl_name, sum(pgsize) FROM dbstat d JOIN sqlite_schema s USING (name) GROUP BY 1"
        with sqlite3.connect(place.prefect / "prefect.db") as database:
            sizes = dict(database.execute(by_table).fetchall())
            rows = {name: database.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in sizes}
        parts = (
            sum(size for name, size in sizes.items() if name.startswith(part))
            for part in ("artifact", "event")
        )
        return cls(rows, sum(sizes.values()), *parts)

    def row(self, work: str, place: Workplace, hours: float = 1.0) -> Contents:
        """Print the growth since these contents per hour; return the contents now."""
        now = Contents.of(place)
        grown = {name: count - self.rows.get(name, 0) for name, count in now.rows.items()}
        others = sum(count for name, count in grown.items() if name not in TABLES)
        counts = (f"{count / hours:,.0f}" for count in (*(grown[name] for name in TABLES), others))
        sizes = now.bytes - self.bytes, now.artifacts - self.artifacts, now.events - self.events
        row(work, *counts, *(f"{size / 1e6 / hours:.2f}" for size in sizes))
        return now


def command(place: Workplace, *options: str) -> None:
    done = place.mcvrp(*options, "--preset", "smoke")
    assert done.returncode == 0, done.stderr


def drive(store: Store, night: int, days: int = 8) -> None:
    """Put a file with the routes of the days before ``night`` into the incoming folder."""
    city, first = load_city(store, "smoke"), datetime.date(2026, 1, 1)
    stream, numbers = InstanceStream(city, 7, "train"), range(days * (night - 1), days * night)
    dates = [(first + datetime.timedelta(day)).isoformat() for day in numbers]
    instances = [stream(20, day) for day in numbers]
    routes = [(date, each, sweep(city, each)) for date, each in zip(dates, instances, strict=True)]
    put_routes(store, f"incoming/night-{night}.csv", routes)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("what", nargs="*", choices=("run", "label", "ui", []), default=[])
    parser.add_argument("--minutes", type=float, default=2)
    options = parser.parse_args()
    chosen = options.what or ("run", "label", "ui")
    print(f"{hardware()}\n", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        place = Workplace(Path(folder))
        heading("growth", *TABLES, "others", "MB", "artifacts", "events", texts=1)
        command(place, "city", "create")
        now = Contents({}).row("new database, `mcvrp city create`", place)
        if "run" in chosen:
            command(place, "run", "--set", "train.ranks=1")
            now = now.row("`mcvrp run`", place)
            for night in (1, 2):
                drive(Store.open(place.store), night)
                command(place, "nightly", "--set", "nightly.ranks=1")
                now = now.row(f"night {night}", place)
        if "label" in chosen:
            began = time.monotonic()
            done = place.python("-c", _LABEL, str(round(options.minutes * 600)), PYTHONPATH=_ROOT)
            assert done.returncode == 0, done.stderr
            now = now.row(f"`mcvrp label`, {(time.monotonic() - began) / 60:.1f} min", place)
        if "ui" in chosen:
            with mcvrp_ui(place):
                time.sleep(60)  # its worker starts
                now = now.row("start of `mcvrp ui`", place)
                began = time.monotonic()
                time.sleep(60 * options.minutes)
                now.row("idle `mcvrp ui`, per hour", place, (time.monotonic() - began) / 3600)


if __name__ == "__main__":
    main()
