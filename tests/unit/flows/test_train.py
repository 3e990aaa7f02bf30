"""Test of the flow `train`: its task runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcvrp.flows import train as flow
from mcvrp.model.problem import City
from mcvrp.storage.store.store import Store
from mcvrp.tasks.train.phases import PhaseSummary
from tests.support.training import small_spec


def test_each_job_of_a_phase_is_a_task_run_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    titles = []

    def job(store: Store, city: City, spec: object, phase: str, title: str) -> PhaseSummary:
        titles.append(title)
        done = len(titles)
        return PhaseSummary(phase, 4 * done, 12, 144, 4 * (done - 1), 1.0, {})

    assert flow.train_job.task_run_name == "train {title}"
    monkeypatch.setattr(flow, "train_job", job)
    summary = flow.train_one(Store(str(tmp_path)), City.uniform(30, seed=1), small_spec(), "II")
    assert titles == ["II", "II, job 2", "II, job 3"]
    assert summary == PhaseSummary("II", 12, 12, 144, 0, 3.0, {})
