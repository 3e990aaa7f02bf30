"""Training in MLflow: an experiment per training run, a run per phase, and the model versions by address.

The place is set by MLflow's own variables, such as MLFLOW_TRACKING_URI; so is the patience with a server, of
which there is less here by default. Functions return why MLflow failed, "" if it did not: it has copies only,
for which no training should stop.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from mcvrp.model.errors import brief, reason
from mcvrp.storage.training.metrics import StepMetrics, scalars

_BATCH = 1000  # metrics of a request, MLflow's limit
# Training waits meanwhile. With MLflow's own settings a server that is away takes four minutes a checkpoint.
_PATIENCE = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "10", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1"}


def log_metrics(run: str, phase: str, rows: Sequence[tuple[StepMetrics, float]]) -> str:
    """Log ``rows``, each with the time when it was closed in seconds since 1970."""

    def log(client: Any) -> None:
        from mlflow.entities import Metric

        metrics = [
            Metric(tag, value, int(1000 * at), row.step) for row, at in rows for tag, value in scalars(row)
        ]
        number = _run(client, run, phase)
        for first in range(0, len(metrics), _BATCH):
            client.log_batch(number, metrics[first : first + _BATCH])

    return _tried(log)


def log_model(run: str, phase: str, name: str, url: str) -> str:
    """Register the version at ``url`` of the model ``name``, unless it is registered."""

    def log(client: Any) -> None:
        if not client.search_registered_models(f"name = '{name}'"):
            client.create_registered_model(name)
        if not any(each.source == url for each in client.search_model_versions(f"name = '{name}'")):
            client.create_model_version(name, url, _run(client, run, phase))

    return _tried(log)


def _run(client: Any, run: str, phase: str) -> str:
    experiment = client.get_experiment_by_name(run)
    number = experiment.experiment_id if experiment else client.create_experiment(run)
    runs = client.search_runs([number], f"attributes.run_name = '{phase}'", max_results=1)
    return str((runs[0] if runs else client.create_run(number, run_name=phase)).info.run_id)


def _tried(log: Callable[[Any], None]) -> str:
    try:
        from mlflow import MlflowClient  # here, as a node of a cluster may lack it

        for name, value in _PATIENCE.items():
            os.environ.setdefault(name, value)
        log(MlflowClient())
    except Exception as error:  # of its databases and connections, too
        missing = isinstance(error, ImportError)
        hint = "install the extra 'mlflow' on each machine" if missing else "check MLFLOW_TRACKING_URI"
        return f"MLflow has not taken what was logged ({brief(reason(error), 200)}): {hint}"
    return ""
