"""Tests of the logs of a run in Prefect: lines of mcvrp with their levels, each once, and no secret."""

from __future__ import annotations

import json
import logging
from collections import Counter
from pathlib import Path

from mcvrp.flows.config.preset import load_preset
from mcvrp.storage import layout
from mcvrp.storage.store.store import Store
from mcvrp.tasks.city.make import make_city
from tests.support.command import Workplace
from tests.support.datasets import make_dataset

SECRET = "c4n4ryc4n4ry"  # noqa: S105

# Lines of a flow, a task, and a thread without a run, read by Prefect's client.
SPEAKS = f"""
import json, logging, threading
from mcvrp.flows.config import settings
from mcvrp.flows.config.logs import terminal
settings.prepare(verbose=False)
from prefect import task
from prefect.client.orchestration import get_client
from mcvrp.flows.server.server import prefect_server
from mcvrp.flows.server.stage import TASK_OPTIONS, stage
from mcvrp.model.errors import McvrpError

logger = logging.getLogger("mcvrp.tasks.some.module")

@task(name="step", **TASK_OPTIONS)
def step():
    logger.warning("a worker was lost: %s", ValueError("{SECRET}"))

@stage("speaks", "speaks", timeout=60)
def speaks():
    logger.info("in the flow, s3://me:{SECRET}@host")
    logger.debug("a detail")
    thread = threading.Thread(target=logger.info, args=("of no run",))
    thread.start()
    thread.join()
    step()
    raise RuntimeError("unexpected {SECRET}")

with terminal(), prefect_server():
    speaks(return_state=True)
    from prefect.logging.handlers import APILogWorker
    APILogWorker.drain_all(timeout=10)
    with get_client(sync_client=True) as client:
        logs = client.read_logs()
print(json.dumps([(log.name, log.level, log.message, bool(log.task_run_id)) for log in logs]))
"""


def test_lines_of_a_run_are_in_its_logs(place: Workplace) -> None:
    done = place.python("-c", SPEAKS, SOME_PASSWORD=SECRET)
    assert done.returncode == 0, done.stderr
    lines = [tuple(line) for line in json.loads(done.stdout)]
    ours = [line for line in lines if line[0].startswith("mcvrp")]
    assert Counter(ours) == Counter(
        [
            ("mcvrp.tasks.some.module", logging.INFO, "in the flow, s3://…@host", False),
            ("mcvrp.tasks.some.module", logging.WARNING, "a worker was lost: …", True),
        ]
    )
    assert any("RuntimeError: unexpected …" in message for _, level, message, _ in lines if level == 40)
    assert not [line for line in lines if "hook" in line[2]]
    assert SECRET not in done.stdout
    assert [line for line in done.stderr.splitlines() if "Prefect server" not in line] == [
        "in the flow, s3://…@host",
        "of no run",
        "a worker was lost: …",
    ]


def test_lines_of_a_command_are_in_the_logs_of_its_run(place: Workplace, scratch: Path) -> None:
    """Complete labels except for a corrupt file: progress is INFO, the repair WARNING."""
    store, preset = Store.open(place.store), load_preset("smoke")
    city = make_city(store, preset.city).city
    changes = {"count": 10, "held_out": 1}
    for spec in preset.label.model_copy(update=changes).datasets:
        make_dataset(store, spec, city)
    corrupt = layout.label_shard("smoke", 20, 0)
    store.put(corrupt, b"no Parquet")
    options = (word for name, value in changes.items() for word in ("--set", f"label.{name}={value}"))
    done = place.mcvrp("label", "--preset", "smoke", *options, RAY_TMPDIR=str(scratch))
    assert done.returncode == 0, done.stderr
    ours = [line for line in place.logged() if line[0].startswith("mcvrp")]
    repair, *progress = ours
    assert repair[:2] == ("mcvrp.tasks.label.repair", logging.WARNING)
    assert repair[2].startswith(f"{corrupt} was corrupt: 0 good rows kept")
    assert {line[:2] for line in progress} == {("mcvrp.tasks.support.progress", logging.INFO)}
    assert [line[2] for line in ours] == done.stderr.splitlines()[2:]  # first, that a server starts and where
