"""Tests of the application of Prefect servers that mcvrp starts, with SQLite."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_SECONDS = 20.0  # that a connection waits for another to write

# A connection whose failed cursor is garbage waits for another one that the main thread has to commit, as in
# the server, where the main thread serves. Meanwhile objects are created, which makes Python collect garbage.
_PROGRAM = f"""
import sqlite3, sys, threading, time
from mcvrp.flows.server.app import create_app

create_app()
first = sqlite3.connect(sys.argv[1], isolation_level=None)
second = sqlite3.connect(sys.argv[1], isolation_level=None, check_same_thread=False)
first.execute("create table t (x)")
first.execute("begin immediate")
second.execute("pragma busy_timeout = 0")
garbage = [second.cursor()]
try:
    garbage[0].execute("begin immediate")
except sqlite3.OperationalError:
    garbage.append(garbage)
first.execute("commit")
second.execute("pragma busy_timeout = {_SECONDS * 1000:.0f}")
first.execute("begin immediate")

def write():
    try:
        second.execute("begin immediate")
        print("admitted")
    except sqlite3.OperationalError as error:
        print(error)

writer = threading.Thread(target=write)
writer.start()
time.sleep(1.0)
del garbage
made = [[] for _ in range(100_000)]
first.execute("commit")
writer.join()
"""


def test_garbage_does_not_make_the_server_wait_for_itself(tmp_path: Path) -> None:
    """If the main thread collects it, the second connection waits in vain: "database is locked"."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(tmp_path / "db")],
        env=os.environ | {"PREFECT_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout == "admitted\n", done.stderr
