"""Tests of `mcvrp ui` with its real server, worker and runs: starting, schedules, stopping."""

from __future__ import annotations

import json
import logging
import signal
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Workplace
from tests.support.faults import MARK, Family
from tests.support.shared import until
from tests.support.ui import Ui, mcvrp_ui

pytestmark = pytest.mark.slow
STOPPED = (0, 130)  # 130 where an orderly stop took too long on a busy machine
NAMES = {"pipeline", "city", "label", "train", "attention", "benchmark", "nightly", "improve", "solve"}


RECEIVED: list[dict[str, Any]] = []  # messages of the webhook


class Webhook(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        RECEIVED.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()


def failed(run: dict[str, Any], message: str) -> None:
    assert run["state_type"] == "FAILED"
    assert run["state"]["message"].startswith(message)


# For tests that do not depend on the database.
on_sqlite = pytest.mark.parametrize("ui", ["SQLite"], indirect=True)


@pytest.fixture(scope="module")
def webhook() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Webhook) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/hook?token=canary"
        server.shutdown()


@pytest.fixture(scope="module", params=["SQLite", "Postgres"])
def ui(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, webhook: str
) -> Iterator[Ui]:
    """A UI with the smoke preset and its city, on either database."""
    place = Workplace.new(tmp_path_factory.mktemp("ui"))
    place.set_traps()  # the current folder of the server, its worker and all runs
    more = ("--database", request.getfixturevalue("postgres")) if request.param == "Postgres" else ()
    with mcvrp_ui(place, "--notify", webhook, *more) as ui:
        made = ui.ended(ui.start("city"))
        assert (made["state_type"], made["name"]) == ("COMPLETED", "city smoke, 50 customers")
        yield ui
        assert ui.stop() in STOPPED
        until("the end of all processes", 180, lambda: not place.processes())


def test_a_wrong_value_is_refused_by_the_form_or_at_once(ui: Ui) -> None:
    spec = ui.deployment("label")["parameters"]["label"]
    with pytest.raises(AssertionError, match=r"409.*label\.count.*-3"):
        ui.start("label", label=spec | {"count": -3})
    run = ui.ended(ui.start("label", label=spec | {"smallest": 30}))
    failed(run, "[label] smallest = 30 is above largest = 22")
    assert run["name"] == "label, refused"
    failed(ui.ended(ui.start("train")), "dataset 'smoke' has no labels of 20-22 customers")


@on_sqlite
def test_its_server_deletes_old_runs_and_events(ui: Ui) -> None:
    server = ui.api("/admin/settings")["server"]
    vacuum = server["services"]["db_vacuum"]
    assert set(vacuum["enabled"]) == {"events", "flow_runs"}
    assert (vacuum["retention_period"], server["events"]["retention_period"]) == ("P90D", "P7D")


def copied(deployment: dict[str, Any], *more: str) -> dict[str, Any]:
    return {key: deployment[key] for key in ("flow_id", "work_pool_name", "entrypoint", "tags", *more)}


@on_sqlite
def test_a_parameter_that_no_flow_has_is_named(ui: Ui) -> None:
    ended = ui.ended(ui.start("label", labell={"count": 1}))
    failed(ended, "there is no parameter 'labell'; label knows: city, label, store")
    kept = copied(ui.deployment("solve"))
    bare = ui.api("/deployments/", kept | {"name": "bare"})["id"]  # has no initial values
    body = {"state": {"type": "SCHEDULED"}}
    ended = ui.ended(ui.api(f"/deployments/{bare}/create_flow_run", body)["id"])
    ui.api(f"/deployments/{bare}", method="DELETE")
    failed(ended, "parameter city is missing: give it with the others (city,")


@on_sqlite
def test_a_run_gets_no_other_store_and_no_file_of_the_machine(ui: Ui) -> None:
    imported = {"name": "theirs", "source": "imported", "addresses": {"file": "/etc/passwd"}}
    climbing = {**imported, "addresses": {"file": "orders.csv", "history": "../../secret.csv"}}
    spec = ui.deployment("pipeline")["parameters"]["spec"]
    refused: dict[str, tuple[str, Any]] = {
        "store = '/elsewhere' is not the store of the worker: leave it": ("label", {"store": "/elsewhere"}),
        "city.addresses.file = '/etc/passwd' is not a path in the store": ("city", {"city": imported}),
        "spec.city.addresses.history = '../../secret.csv' is not a path": (
            "pipeline",
            {"spec": spec | {"city": climbing}},
        ),
        "orders = '/etc/passwd' is not a path in the store: upload": ("solve", {"orders": "/etc/passwd"}),
    }
    runs = {message: ui.start(name, **changes) for message, (name, changes) in refused.items()}
    for message, run in runs.items():
        failed(ui.ended(run), message)


@on_sqlite
def test_a_worker_runs_the_flows_of_mcvrp_and_nothing_else(ui: Ui, tmp_path: Path) -> None:
    """No command, environment, code or pull step of a run, a deployment or the work pool."""
    deployment, touched = ui.deployment("city"), tmp_path / "touched"
    command = f"touch {touched}"
    start = f"/deployments/{deployment['id']}/create_flow_run"
    body = {"parameters": deployment["parameters"], "state": {"type": "SCHEDULED"}}
    for variables in ({"command": command}, {"env": {"MCVRP_STORE": "/"}}, {"working_dir": "/"}):
        with pytest.raises(AssertionError, match=r"422.*Additional properties are not allowed"):
            ui.api(start, body | {"job_variables": variables})
    same = copied(deployment, "parameters", "parameter_openapi_schema") | {"name": "theirs"}
    (tmp_path / "theirs.py").write_text(f"import pathlib\npathlib.Path({str(touched)!r}).touch()\n")
    shell = [{"prefect.deployments.steps.run_shell_script": {"script": command}}]
    for other in ({"pull_steps": shell}, {"entrypoint": f"{tmp_path}/theirs.py:city"}):
        made = ui.api("/deployments/", same | other)["id"]
        ended = ui.ended(ui.api(f"/deployments/{made}/create_flow_run", body)["id"])
        failed(ended, "its deployment names other code than the flows of mcvrp")
        ui.api(f"/deployments/{made}", method="DELETE")
    pool = ui.api("/work_pools/mcvrp")["base_job_template"]
    changed = {"job_configuration": {"command": command}, "variables": {"type": "object", "properties": {}}}
    ui.api("/work_pools/mcvrp", {"base_job_template": changed}, "PATCH")
    ended = ui.ended(ui.start("city"))
    ui.api("/work_pools/mcvrp", {"base_job_template": pool}, "PATCH")
    assert ended["state_type"] == "CRASHED"
    assert "job variable command is refused: this worker runs" in ended["state"]["message"]
    assert not touched.exists()


def test_a_failed_run_calls_the_webhook_and_the_address_is_nowhere(ui: Ui) -> None:
    run = ui.ended(ui.start("label", city="nowhere"))
    calls = until("the call", 60, lambda: [call for call in RECEIVED if call["id"] == run["id"]])
    (call,) = calls
    assert call["run"] == run["name"] == "label smoke n=20-22, 3 partitions"
    failed(run, "no city 'nowhere' in ")
    assert call["message"] == run["state"]["message"]
    assert run["id"] in call["url"]
    assert call["message"] in call["text"]
    blocks = ui.api("/block_documents/filter", {})
    assert blocks
    assert "canary" not in json.dumps([blocks, ui.api("/automations/filter", {})])
    assert "canary" not in ui.errors.read_text()
    of_run = {"logs": {"flow_run_id": {"any_": [run["id"]]}}}
    lines = [line["message"] for line in ui.api("/logs/filter", of_run)]
    assert not [line for line in lines if "Traceback" in line or "exception" in line]


def test_a_cron_schedule_fires(ui: Ui) -> None:
    id = ui.deployment("city")["id"]
    schedule = {"schedule": {"cron": "* * * * *", "timezone": "UTC"}, "active": True}
    (made,) = ui.api(f"/deployments/{id}/schedules", [schedule])
    body = {"deployments": {"id": {"any_": [id]}}}

    def fired() -> list[dict[str, Any]]:
        runs = ui.api("/flow_runs/filter", body)
        return [run for run in runs if run["auto_scheduled"] and run["state_type"] == "COMPLETED"]

    run = until("a run of the schedule", 240, fired)[0]
    assert run["name"] == "city smoke, 50 customers"
    ui.api(f"/deployments/{id}/schedules/{made['id']}", {"active": False}, "PATCH")


def test_a_killed_ui_is_on_record_and_the_next_one_resumes(tmp_path_factory: pytest.TempPathFactory) -> None:
    place = Workplace.new(tmp_path_factory.mktemp("killed"))
    with mcvrp_ui(place) as ui:
        ui.ended(ui.start("city"))
        spec = ui.deployment("label")["parameters"]["label"]
        slow = ui.start("label", label=spec | {"iterations": 100_000})
        ui.reaches(slow, "Running")
        waiting = ui.start("label", label=spec | {"dataset": "quick", "held_out": 0})
        ui.reaches(waiting, "AwaitingConcurrencySlot")
        city = ui.deployment("city")["id"]
        schedule = {"schedule": {"cron": "0 3 * * *", "timezone": "UTC"}, "active": False}
        ui.api(f"/deployments/{city}/schedules", [schedule])
        ui.api("/deployments/", copied(ui.deployment("city")) | {"name": "of-yesterday"})
        ui.process.send_signal(signal.SIGKILL)
        ui.process.wait()
    until("the end of all processes", 180, lambda: not place.processes())
    with mcvrp_ui(place, port=None, **{MARK: str(place.folder)}) as ui:
        run = ui.ended(slow, 300)
        assert run["state_type"] == "CRASHED"
        assert "what is finished is kept, start again to resume" in run["state"]["message"]
        assert ui.ended(waiting)["state_type"] == "COMPLETED"
        page = ui.api("/logs/filter", {"logs": {"flow_run_id": {"any_": [waiting]}}})
        levels = [
            line["level"] for line in page if line["message"].startswith("labels quick: 120/120 labels")
        ]
        assert levels == [logging.INFO]
        (kept,) = ui.deployment("city")["schedules"]
        assert kept["schedule"]["cron"] == "0 3 * * *"
        assert not kept["active"]
        assert {deployment["name"] for deployment in ui.api("/deployments/filter", {})} == NAMES
        ui.start("label", label=spec | {"iterations": 100_000})
        family = Family(ui.process.pid, str(place.folder))
        until("labels being made", 120, family.solving)
        assert ui.stop(signal.SIGTERM) in STOPPED
    until("the end of all processes", 180, lambda: not place.processes())
    assert {state for _, state in place.recorded("flow_run")} == {"COMPLETED", "CRASHED"}  # at once
    assert not [text for _, _, text in place.logged() if "Traceback" in text]
