"""The `mcvrp` command as a user runs it, in a process of its own, with a Prefect history of its own."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.shared import made_once


def _make_tables(home: Path) -> None:
    upgrade = [sys.executable, "-m", "prefect", "server", "database", "upgrade", "--yes"]
    subprocess.run(upgrade, env=_environment(PREFECT_HOME=str(home)), capture_output=True, check=True)


def _environment(**changes: str) -> dict[str, str]:
    ours = ("PREFECT_", "RAY_ADDRESS", "MCVRP_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)} | changes


# Modules of a user in the folder of the command: their names are those of our inner packages.
TRAPS = ("model", "storage", "tasks", "flows")
SPRUNG = "the user's file was imported"


@dataclass(frozen=True)
class Workplace:
    """A folder with a store and a Prefect home in which commands run."""

    folder: Path

    @classmethod
    def new(cls, folder: Path) -> Workplace:
        shutil.copytree(made_once("prefect", _make_tables), folder / "prefect")  # slower to make than a test
        return cls(folder)

    def set_traps(self, names: Sequence[str] = TRAPS) -> None:
        """Write modules ``names``, which end the process that imports them, to the folder of commands."""
        for name in names:
            (self.folder / f"{name}.py").write_text(f"raise SystemExit({SPRUNG!r})\n")

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def prefect(self) -> Path:
        return self.folder / "prefect"

    def environment(self, **changes: str) -> dict[str, str]:
        """Return the environment of a command, without outer variables of Prefect and Ray."""
        cache = self.folder / "cache"
        places = {"PREFECT_HOME": self.prefect, "MCVRP_STORE": self.store, "MCVRP_CACHE": cache}
        # Ray's workers run at niceness 15: beside another test they would hardly run at all.
        awake = {"RAY_worker_niceness": "0"}
        return _environment(**{name: str(place) for name, place in places.items()}) | awake | changes

    def python(self, *arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=self.environment(**changes),
            capture_output=True,
            text=True,
            timeout=500,
        )

    def mcvrp(self, *arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
        return self.python("-m", "mcvrp.flows.cli.main", *arguments, **changes)

    def recorded(self, table: str) -> Counter[tuple[str, str]]:
        with sqlite3.connect(self.prefect / "prefect.db") as database:
            return Counter(database.execute(f"SELECT name, state_type FROM {table}").fetchall())

    def logged(self) -> list[tuple[str, int, str]]:
        """Return logger, level and text of the lines on the pages of all runs, read past Prefect."""
        with sqlite3.connect(self.prefect / "prefect.db") as database:
            return database.execute("SELECT name, level, message FROM log ORDER BY timestamp").fetchall()

    def processes(self) -> list[int]:
        mark = f"PREFECT_HOME={self.prefect}".encode()
        running = []
        for environ in Path("/proc").glob("[0-9]*/environ"):
            try:
                if mark in environ.read_bytes().split(b"\0"):
                    running.append(int(environ.parent.name))
            except OSError:  # ended meanwhile, or not ours
                continue
        return running
