"""Tests that secrets of the environment are in no store, record, log or process list after a run."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcvrp.storage.store.store import Store
from tests.support.command import Workplace
from tests.support.origins import artifacts, made_from
from tests.support.s3_server import S3Server, User
from tests.support.shared import until

CANARY = "c4n4ryc4n4ry"
SECRETS = {
    "AWS_SECRET_ACCESS_KEY": f"{CANARY}-aws",
    "AWS_SESSION_TOKEN": f"{CANARY}-session",
    "POSTGRES_PASSWORD": f"{CANARY}-postgres",
    "PREFECT_API_AUTH_STRING": f"admin:{CANARY}-prefect",
    "PREFECT_SERVER_API_AUTH_STRING": f"admin:{CANARY}-prefect",
    "SOME_PASSWORD": f"{CANARY}-other",
}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]


class Watcher(threading.Thread):
    """Reads the command lines of all processes repeatedly, as every user of a machine can."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.seen: set[bytes] = set()
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.2):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    self.seen.add(path.read_bytes())
                except OSError:  # has ended
                    continue


@pytest.fixture
def watched() -> Iterator[Watcher]:
    watcher = Watcher()
    watcher.start()
    yield watcher
    watcher.over.set()
    watcher.join()


def files_with_a_canary(folder: Path) -> list[str]:
    """Return the files below ``folder`` that contain a secret, in plain text or base64."""
    patterns = [CANARY.encode(), b"YWRtaW46YzRuNHJ5"]  # the second is "admin:c4n4ry" in base64
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return [str(path) for path in files if any(pattern in path.read_bytes() for pattern in patterns)]


def bring_work(place: Workplace) -> Path:
    """Store three driven days of 20 customers for the night; return a file of orders."""
    rows = [f"2026-03-0{day},a,{k},{k},1,30" for day in (2, 3, 4) for k in range(1, 21)]
    (place.store / "incoming").mkdir()
    text = "\n".join(["date,route,stop,customer,demand,capacity", *rows, ""])
    (place.store / "incoming" / "march.csv").write_text(text)
    orders = place.folder / "monday.csv"
    orders.write_text("customer,demand\n1,3\n2,4\n3,5\n")
    return orders


def check(place: Workplace, ray: Path, output: str, watcher: Watcher) -> None:
    assert CANARY not in output
    assert files_with_a_canary(place.folder) == []
    assert files_with_a_canary(ray) == []
    assert not [line for line in watcher.seen if CANARY.encode() in line]
    with sqlite3.connect(place.prefect / "prefect.db") as database:
        dump = "\n".join(database.iterdump())
    assert "pipeline" in dump
    assert CANARY not in dump


def test_a_run_leaves_no_secret_behind(tmp_path: Path, scratch: Path, watched: Watcher) -> None:
    place = Workplace.new(tmp_path)
    few = ("--set", 'benchmark.methods=["hgs", "fm-gs"]')
    run = ("run", "--preset", "smoke", "--verbose", *few)
    done = place.mcvrp(*run, RAY_TMPDIR=str(scratch), **SECRETS)
    assert done.returncode == 0, done.stderr[-3000:]
    output = done.stdout + done.stderr
    orders = bring_work(place)
    solve = f"solve {orders} --capacity 30 --samples 4 --time-limit 120 --out {tmp_path}/out"
    for command in ("nightly", solve):
        options = (*command.split(), "--preset", "smoke", "--verbose")
        done = place.mcvrp(*options, RAY_TMPDIR=str(scratch), **SECRETS)
        assert done.returncode == 0, done.stderr[-3000:]
        output += done.stdout + done.stderr
    store = Store.open(place.store)
    assert "nights" in store.folders("")
    known = artifacts(store) | {"driven/smoke"}
    for path in known - {"cities/smoke", "driven/smoke"}:
        assert {"cities/smoke"} <= made_from(store, path) <= known, path
    check(place, scratch, output, watched)
    for name in ("logs", "tmp"):
        assert not (tmp_path / name).exists()


def test_a_failed_run_in_a_bucket_leaves_no_secret_behind(
    s3: S3Server, tmp_path: Path, scratch: Path, watched: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Workplace.new(tmp_path)
    wrong = s3.environment(User("owner", s3.owner.key, f"{CANARY}-wrong"))
    wrong |= {name: value for name, value in SECRETS.items() if not name.startswith("AWS_")}
    address = f"s3://{s3.bucket()}/some"
    refused = place.mcvrp("city", "create", "--preset", "smoke", "--store", address, **wrong)
    assert refused.returncode == 2
    assert "SignatureDoesNotMatch" in refused.stderr
    assert CANARY not in refused.stdout + refused.stderr
    program = (
        "from mcvrp.flows.city import city\nfrom mcvrp.flows.server.server import prefect_server\n"
        "from mcvrp.tasks.city.make import CitySpec\n"
        f"with prefect_server():\n    city(CitySpec(name='pipeline', customers=30), '{address}')\n"
    )
    failed = place.python("-c", program, RAY_TMPDIR=str(scratch), **wrong)
    assert failed.returncode != 0
    until("the end of all processes", 30, lambda: not place.processes())
    check(place, scratch, failed.stdout + failed.stderr, watched)
    assert os.environ.get("AWS_SECRET_ACCESS_KEY") != wrong["AWS_SECRET_ACCESS_KEY"]
