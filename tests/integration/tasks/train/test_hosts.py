"""Training by Ray Train on hosts with their own addresses and files, one of which fails meanwhile.

`make test-stack-full` runs it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mcvrp.storage.store.store import Store
from mcvrp.storage.training.checkpoints import latest_checkpoint
from mcvrp.storage.training.metrics import read_metrics
from mcvrp.tasks.support.processes import free_port
from mcvrp.tasks.train.phases import train_phase
from tests.support.fault_kinds import NODE_PATH, ON_NODE, Cluster
from tests.support.faults import start_family
from tests.support.hosts import Host, hosts
from tests.support.training import CITY, small_spec, write_dataset

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.environ.get("MCVRP_TEST_STACK") != "all", reason="`make test-stack-full` runs it"),
]
PHASE = small_spec().phases[1].model_copy(update={"name": "only", "passes": 30})
SPEC = small_spec(run="one", phases=(PHASE,), ranks=2, checkpoint_every=20)
_SECONDS = 600.0


def rows(store: Store, run: str) -> np.ndarray:
    """Return the losses of all steps."""
    return np.asarray([row.solution_loss for row in read_metrics(store, run, "only")])


def cut(cluster: Cluster, host: Host, name: str) -> None:
    """Take the link of ``host`` down for a minute."""
    host.link("down")
    time.sleep(60)
    host.link("up")


def kill(cluster: Cluster, host: Host, name: str) -> None:
    """Kill all processes of the node permanently."""
    cluster.nodes[name].kill()


@pytest.mark.parametrize("fault", [kill, cut])
def test_ranks_on_two_hosts(
    tmp_path: Path, scratch: Path, fault: Callable[[Cluster, Host, str], None]
) -> None:
    """After a host failed, ranks restart on the others; the losses are those of one machine."""
    store = Store.open(str(tmp_path / "store"))
    write_dataset(store, CITY, range(20, 23), 30)
    train_phase(store, CITY, SPEC, "only", tmp_path / "cache")
    spec = SPEC.model_copy(update={"run": "hosts", "launcher": "ray", "restarts": 99})
    log = scratch / "driver.log"
    with hosts(4) as (of_head, one, two, of_driver):
        cluster = Cluster(scratch, free_port(), places={"head": of_head, "one": one, "two": two})
        driver = None
        try:
            for name in cluster.places:
                cluster.start(name)
            program = [sys.executable, "-m", "tests.support.driven_training"]
            arguments = [store.uri, "/media/cache", spec.model_dump_json()]
            driver, family = start_family(
                [*of_driver.inside, ON_NODE, *program, *arguments],
                log,
                **cluster.environment,
                **NODE_PATH,
            )
            deadline = time.monotonic() + _SECONDS
            while not latest_checkpoint(store, "hosts", "only"):
                assert driver.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.1)
            nodes = [name for name, node in cluster.nodes.items() if "RayTrainWorker" in str(node.members())]
            assert len(nodes) == 2, log.read_text()
            chosen = next(name for name in nodes if name != "head")
            fault(cluster, cluster.places[chosen], chosen)  # type: ignore[arg-type]
            assert driver.wait(_SECONDS) == 0, log.read_text()
        finally:
            if driver:
                family.kill()
                driver.wait()
            cluster.stop()
    assert "restarted from step" in log.read_text()
    np.testing.assert_array_equal(rows(store, "hosts"), rows(store, "one"))
