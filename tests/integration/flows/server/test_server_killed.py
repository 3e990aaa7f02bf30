"""Tests of a killed Prefect server: the command that has started it restarts it and succeeds."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from pyarrow import parquet

from tests.support.command import Workplace

pytestmark = pytest.mark.slow
_LINK = "Prefect: http"
_ENDED = "the Prefect server ended (exit code -9), restarting it"
_RUN = ("run", "--preset", "smoke", "--set", "train.ranks=1", "--set", 'benchmark.methods=["hgs","fm-gs"]')


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    """A workplace in which no server was killed."""
    place = Workplace.new(tmp_path_factory.mktemp("undisturbed"))
    done = place.mcvrp(*_RUN)
    assert done.returncode == 0, done.stderr
    return place


def made(place: Workplace) -> dict[str, object]:
    """Return the contents of the weights and labels by file, without the runtime of labels."""
    weights = {path: path.read_bytes() for path in place.store.rglob("*.safetensors")}
    parts = (place.store / "labels").rglob("*.parquet")
    labels = {path: parquet.ParquetFile(path).read().drop_columns("runtime").to_pylist() for path in parts}
    return {str(path.relative_to(place.store)): content for path, content in (weights | labels).items()}


def kill_server(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        for child in psutil.Process(process.pid).children():
            if "uvicorn" in child.cmdline():
                child.kill()


def killed(place: Workplace, *after: float, always: bool = False) -> str:
    """Run the command, its server killed ``after`` seconds from the link and each kill; return its stderr."""
    errors = place.folder / "stderr"
    with errors.open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "mcvrp.flows.cli.main", *_RUN],
            cwd=place.folder,
            env=place.environment(),
            stdout=subprocess.DEVNULL,
            stderr=log,
            text=True,
        )
    try:
        while process.poll() is None and _LINK not in errors.read_text():
            time.sleep(0.02)
        for seconds in after:
            time.sleep(seconds)
            kill_server(process)
        while always and process.poll() is None:
            kill_server(process)
            time.sleep(0.05)
        assert process.wait(timeout=400) == 0, errors.read_text()
        return errors.read_text()
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    "after",
    [(0.2,), (2.0,), (9.0,), (0.2, 1.0, 2.0)],
    ids=[
        "before the first stage",
        "in the first stage",
        "in a later stage",
        "while it starts, repeatedly",
    ],
)
def test_a_run_continues_with_its_server_restarted(
    tmp_path: Path, undisturbed: Workplace, after: tuple[float, ...]
) -> None:
    """Exit code 0, equal bytes, every stage on record, and no process survives."""
    place = Workplace.new(tmp_path)
    stderr = killed(place, *after)
    assert stderr.count(_ENDED) >= 1
    assert "unexpected" not in stderr
    assert made(place) == made(undisturbed)
    assert place.processes() == []
    assert set(place.recorded("flow_run")) == set(undisturbed.recorded("flow_run"))


def test_a_run_whose_server_does_not_stay_up_continues_without_a_record(
    tmp_path: Path, undisturbed: Workplace
) -> None:
    """Killed whenever it runs, it is given up after some attempts, with one warning; equal results."""
    place = Workplace.new(tmp_path)
    stderr = killed(place, 2.0, always=True)
    given_up = "the Prefect server ends again and again: see whether memory or the disk is full"
    assert stderr.count(f"the work continues without a record: {given_up}\n") == 1
    assert "unexpected" not in stderr
    assert made(place) == made(undisturbed)
    assert place.processes() == []
