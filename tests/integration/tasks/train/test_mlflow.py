"""Rows of metrics and versions of models in MLflow's database."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcvrp.storage.store.store import Store
from mcvrp.storage.training.mlflow_runs import log_model
from tests.unit.tasks.train.test_log import log_of, state, take

pytestmark = pytest.mark.usefixtures("only_rank")


def test_mlflow_gets_rows_once_it_answers_and_versions_of_models(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that it refused are sent with the next ones; nothing is there twice."""
    mlflow = pytest.importorskip("mlflow", reason="needs the extra mlflow")  # slow to import
    log, address = log_of(store, tracker="mlflow"), f"sqlite:///{tmp_path / 'mlflow.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
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
