"""Labelling of a dataset under faults: the command in its processes, and the invariants of its result."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.cities import save_city
from mcvrp.storage.labels.dataset import Dataset, list_files, without_merged
from mcvrp.storage.labels.label_files import read_table
from mcvrp.storage.store.lease import active_owner
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.spec import LabelSpec
from mcvrp.tasks.label.stage import label_missing
from mcvrp.tasks.label.verify import verify_dataset
from mcvrp.tasks.support.processes import start_group
from tests.support.shared import made_once, until

CITY = City.uniform(60, seed=3)
CITY_NAME = "c"
NAME = "d"
SPEC = LabelSpec(dataset=NAME, smallest=20, largest=22, count=150, iterations=20, shard_rows=15)
TOTAL = SPEC.count * len(SPEC.sizes)
TIMEOUT_SECONDS = 300.0  # seconds for a command that takes ten, on a machine that has other work too
RAY_AGENTS = ("ray::DashboardAgent", "ray::RuntimeEnvAgent")
MARK = "MCVRP_FAMILY"  # environment variable

_ROOT = Path(__file__).parents[2]
_POLL = 0.05
_COMMAND = """
import sys
from mcvrp.flows.config.settings import prepare
prepare(verbose=True)
from mcvrp.model.errors import McvrpError
from mcvrp.storage.cities import load_city
from mcvrp.storage.store import lease
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.stage import LabelSpec, label_missing
lease.TTL_SECONDS = 3.0  # the owner may have been killed
try:
    store = Store.open(sys.argv[1])
    summary = label_missing(store, load_city(store, "c"), LabelSpec.model_validate_json(sys.argv[2]))
    if summary.lacks:
        sys.exit(f"error: {summary.lacks}")
except McvrpError as error:
    print(f"error: {error}", file=sys.stderr)
    sys.exit(error.exit_code)
"""


@dataclass(frozen=True)
class Family:
    """A process that begins a session, and all that it starts: they keep its session or its MARK."""

    leader: int
    mark: str

    def members(self) -> dict[int, str]:
        """Return the living processes, by id, with their titles."""
        alive, mark = {}, f"{MARK}={self.mark}".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # ended meanwhile
                state, _, _, session = (folder / "stat").read_text().rsplit(")", 1)[1].split()[:4]
                ours = int(session) == self.leader or mark in (folder / "environ").read_bytes().split(b"\0")
                if ours and state != "Z":
                    title = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
                    alive[int(folder.name)] = title.decode(errors="replace").strip()
        return alive

    def solving(self) -> list[int]:
        idle = ("ray::IDLE", *RAY_AGENTS)
        busy = ("ray::",)
        return [
            pid
            for pid, title in self.members().items()
            if title.startswith(busy) and not title.startswith(idle)
        ]

    def without_agents(self) -> dict[int, str]:
        """Return the members without two of Ray, which notice its end within a minute."""
        return {pid: title for pid, title in self.members().items() if not title.startswith(RAY_AGENTS)}

    def kill(self) -> None:
        while members := self.members():
            for pid in members:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(_POLL)


def start_family(command: Sequence[str], log: Path, **changes: str) -> tuple[subprocess.Popen[str], Family]:
    """Start ``command`` without Ray's environment; its output goes to ``log``."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "MCVRP_"))}
    env = {**kept, "OMP_NUM_THREADS": "1", "RAY_worker_niceness": "0", MARK: str(log), **changes}
    with log.open("w") as stream:
        process = start_group(command, env=env, cwd=_ROOT, stdout=stream, stderr=stream)
    return process, Family(process.pid, str(log))


@dataclass
class LabelCommand:
    process: subprocess.Popen[str]
    family: Family
    log: Path

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")

    @property
    def last_line(self) -> str:
        return (self.output.strip().splitlines() or [""])[-1]

    def wait(self) -> int:
        try:
            code = self.process.wait(TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the command does not end; its output:\n{self.output}") from None
        assert code in (0, -signal.SIGKILL) or self.last_line.startswith("error: "), self.output
        return code


@dataclass
class Site:
    """A store with a city and one dataset, and the command that labels it."""

    uri: str  # as the command sees it
    folder: Path  # of logs
    observer: Store  # the same store past every fault
    changes: dict[str, str] = field(default_factory=dict)  # of the environment of the command
    nodes: dict[str, Family] = field(default_factory=dict)  # of the cluster in RAY_ADDRESS
    drivers: list[LabelCommand] = field(default_factory=list)

    def start(self, **changes: str) -> LabelCommand:
        log = self.folder / f"command-{len(self.drivers)}.log"
        arguments = ("-c", _COMMAND, self.uri, SPEC.model_dump_json(exclude_none=True))
        command = [sys.executable, *arguments]
        process, family = start_family(command, log, **{**self.changes, **changes})
        self.drivers.append(LabelCommand(process, family, log))
        return self.drivers[-1]

    def solving(self, driver: LabelCommand) -> list[int]:
        return [pid for family in (driver.family, *self.nodes.values()) for pid in family.solving()]

    def labelled(self) -> int:
        """Return about how many labels there are, by the names of the files."""
        files = list_files(self.observer, NAME)
        return sum(file.stop - file.start for n in files for file in without_merged(files[n]))

    def await_moment(self, driver: LabelCommand, rng: random.Random, *, at_work: bool = False) -> None:
        """Wait for a random moment of ``driver``'s work, unless ``at_work`` also before or after it."""
        kind = 0.5 if at_work else rng.random()
        if kind < 0.25:
            _wait(lambda: not driver.running, rng.uniform(0.5, 8.0))
            return
        labels = self.labelled()
        wanted = TOTAL if kind > 0.85 else labels + 1 + int(rng.uniform(0, 0.6) * (TOTAL - labels))
        _wait(lambda: not driver.running or self.labelled() >= wanted, TIMEOUT_SECONDS)
        time.sleep(rng.uniform(0, 0.5))

    def finish(self, driver: LabelCommand | None = None, runs: int = 3) -> None:
        """Repeat the command, of which ``driver`` may be the first, until it succeeds; check the result."""
        for _ in range(runs):
            driver = driver or self.start()
            if driver.wait() == 0:
                break
            driver = None
        assert driver, [driver.output for driver in self.drivers]
        self.check()

    def check(self) -> None:
        """Require the dataset of an undisturbed run, complete and once, and no files or processes besides."""
        store = self.observer
        rows = []
        for file in Dataset.open(store, NAME).label_files:
            indices = read_table(store, file.path)["index"].to_pylist()
            assert indices == list(range(file.footer.row_start, file.footer.row_stop))
            rows += [(file.footer.n, i) for i in indices]
        assert sorted(rows) == [(n, i) for n in SPEC.sizes for i in range(SPEC.count)]
        wanted = Dataset.open(Store.open(undisturbed()), NAME)
        assert Dataset.open(store, NAME).fingerprint() == wanted.fingerprint()
        assert store.get_json(layout.manifest(NAME))["rows"] == TOTAL
        merged = [layout.label_file(NAME, n, 0, SPEC.count) for n in SPEC.sizes]
        assert store.list(layout.data_dir(NAME)) == merged
        assert active_owner(store, layout.driver_lease(NAME)) is None
        report = verify_dataset(store, NAME)
        assert report.good, report
        until("the end of all processes", TIMEOUT_SECONDS, lambda: not self._processes(), _POLL)

    def _processes(self) -> list[object]:
        families = [driver.family.without_agents() for driver in self.drivers]
        return [*filter(None, families), *filter(None, map(self.solving, self.drivers))]

    def clear(self) -> None:
        for driver in self.drivers:
            driver.family.kill()
            driver.process.wait()


def undisturbed() -> Path:
    """Return a folder with the city and the dataset of a run without faults."""

    def label(folder: Path) -> None:
        store = Store.open(folder)
        save_city(store, CITY_NAME, CITY)
        label_missing(store, CITY, SPEC)

    return made_once("undisturbed", label)


def _wait(until: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not until() and time.monotonic() < deadline:
        time.sleep(_POLL)


def site_at(folder: Path, scratch: Path) -> Site:
    shutil.copytree(undisturbed() / "cities", folder / "cities")
    return Site(str(folder), scratch, Store.open(folder), {"RAY_TMPDIR": str(scratch)})
