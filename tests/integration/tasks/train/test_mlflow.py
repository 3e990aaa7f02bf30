"""Rows of metrics and versions of models in MLflow: in its database, and through its server."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from mcvrp.storage.store.store import Store
from mcvrp.storage.training.mlflow_runs import log_model
from mcvrp.tasks.support.processes import free_port, start_group, stop_group
from tests.support.shared import DIRECT, until
from tests.unit.tasks.train.test_log import log_of, state, take

mlflow = pytest.importorskip("mlflow", reason="needs the extra mlflow")
pytestmark = pytest.mark.usefixtures("only_rank")


@pytest.fixture
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database in a file, or a server of such a database."""
    database = f"sqlite:///{tmp_path / 'mlflow.db'}"
    if request.param == "database":
        yield database
        return
    url = f"http://127.0.0.1:{(port := free_port())}"
    places = ("--backend-store-uri", database, "--default-artifact-root", str(tmp_path / "artifacts"))
    server = start_group(
        [sys.executable, "-m", "mlflow", "server", *places, "--port", str(port), "--workers", "1"],
        env=os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
        cwd=tmp_path,
    )

    def healthy() -> bool:
        assert server.poll() is None
        try:
            return bool(DIRECT.open(f"{url}/health", timeout=5).status == 200)
        except OSError:
            return False

    try:
        until("MLflow's server", 300, healthy)
        yield url
    finally:
        stop_group(server)


@pytest.mark.parametrize(
    "address", ["database", pytest.param("server", marks=pytest.mark.slow)], indirect=True
)
def test_mlflow_gets_rows_once_it_answers_and_versions_of_models(
    store: Store, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that it refused are sent with the next ones; nothing is there twice."""
    log = log_of(store, tracker="mlflow")
    (tmp_path / "nowhere").write_text("no folder")
    elsewhere = f"sqlite:///{tmp_path / 'nowhere' / 'mlflow.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9" if "http" in address else elsewhere)
    take(log, (1, 2))
    assert "MLflow has not taken what was logged" in log.save()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    take(log, (3,))
    assert log.save() == ""
    take(log_of(store, start=state(3), tracker="mlflow"), (4,))
    for _ in range(2):
        assert log_model("small", "II", "m", "s3://bucket/models/m/0001") == ""
    client = mlflow.MlflowClient(address)
    (run,) = client.search_runs([client.get_experiment_by_name("small").experiment_id])
    assert run.info.run_name == "II"
    history = client.get_metric_history(run.info.run_id, "loss/solution")
    assert [each.step for each in history] == [1, 2, 3]
    assert [each.value for each in history] == [row.solution_loss for row in log.rows]
    (version,) = client.search_model_versions("name = 'm'")
    assert (version.source, version.run_id) == ("s3://bucket/models/m/0001", run.info.run_id)


def test_a_server_that_is_away_is_asked_twice_and_not_for_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Training waits meanwhile, at each checkpoint; MLflow itself asks eight times in four minutes."""
    asked: list[str] = []

    class Busy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(503)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            """Keep the output free of requests."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Busy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{server.server_address[1]}")
        assert "MLflow has not taken what was logged" in log_model("small", "II", "m", "s3://b/models/m/0001")
        server.shutdown()
    assert len(asked) == 2
