"""Training by Ray Train on the nodes of a cluster, one of which is lost meanwhile."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from mcvrp.storage.store.store import Store
from mcvrp.storage.training.checkpoints import latest_checkpoint
from mcvrp.tasks.support.processes import free_port
from mcvrp.tasks.train.phases import train_phase
from tests.support.fault_kinds import Cluster
from tests.support.faults import start_family
from tests.support.shared import until
from tests.support.training import CITY, metric_rows, small_spec

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
PHASE = small_spec().phases[1].model_copy(update={"name": "only", "passes": 12})  # 90 steps
SPEC = small_spec(run="one", phases=(PHASE,), ranks=2, checkpoint_every=10)
_SECONDS = 600.0


def test_ranks_of_a_lost_node_restart_on_the_others(store: Store, tmp_path: Path, scratch: Path) -> None:
    """The losses are those of ranks on one machine that nothing has happened to."""
    train_phase(store, CITY, SPEC, "only", tmp_path / "cache")
    spec = SPEC.model_copy(update={"run": "nodes", "launcher": "ray"})
    cluster, log = Cluster(scratch, free_port()), scratch / "driver.log"
    try:
        for name in ("head", "one", "two"):
            cluster.start(name)
        program = [sys.executable, "-m", "tests.support.driven_training"]
        arguments = [store.uri, str(tmp_path / "cache"), spec.model_dump_json()]
        driver, family = start_family([*program, *arguments], log, **cluster.environment)
        try:
            saved = lambda: latest_checkpoint(store, "nodes", "only")  # noqa: E731
            until(f"a checkpoint ({log})", _SECONDS, lambda: saved() or driver.poll() is not None)
            assert driver.poll() is None, log.read_text()
            working = [
                name for name in cluster.nodes if "RayTrainWorker" in str(cluster.nodes[name].members())
            ]
            assert len(working) == 2, log.read_text()
            cluster.nodes[next(name for name in working if name != "head")].kill()
            assert driver.wait(_SECONDS) == 0, log.read_text()
        finally:
            family.kill()
            driver.wait()
    finally:
        cluster.stop()
    assert "restarted from step" in log.read_text()
    np.testing.assert_array_equal(metric_rows(store, "nodes", "only"), metric_rows(store, "one", "only"))
